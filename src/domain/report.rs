//! What a server reports about itself, for operators.

use std::collections::BTreeMap;

/// What one server reports about itself: see
/// [`Client::server_reports`](crate::Client::server_reports).
///
/// # Examples
///
/// ```no_run
/// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// for report in client.server_reports().await? {
///     println!("{}: {:?}", report.server, report.info.get("redis_version"));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The address of the server, without credentials.
    pub server: String,
    /// The Redis user of this client, from `ACL WHOAMI`.
    pub user: Option<String>,
    /// The fields of `INFO` and, in a cluster, of `CLUSTER INFO`.
    pub info: BTreeMap<String, String>,
    /// The settings `timeout`, `tcp-keepalive`, `save`, `appendonly` and `appendfsync`, from
    /// `CONFIG GET`.
    pub settings: BTreeMap<String, String>,
    /// The clients of the server, from `CLIENT LIST`. Empty if there are more than 500.
    pub clients: Vec<BTreeMap<String, String>>,
    /// For each command that failed or was rejected, the reason.
    pub failures: BTreeMap<String, String>,
}
