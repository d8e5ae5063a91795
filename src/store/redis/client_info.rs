//! What clients publish about themselves: one text for each client. Plain commands read and write
//! the texts.

use std::time::Duration;

use redis::cmd;

use super::{RedisStore, Reply, keys, replies, scripts::millis};
use crate::domain::{ClientInfo, InvalidName, Name, Owner};

/// The largest number of bytes that are read of a text. They are enough for a hundred names.
const LONGEST: usize = 200 * 1024;

/// Returns the id of the client of `owner`.
pub(crate) fn client_of(owner: &Owner) -> Result<Name, InvalidName> {
    Name::new(owner.as_str().rsplit_once(':').map_or(owner.as_str(), |(client, _)| client))
}

/// Publishes the `text` of `client`. Redis removes the text after `rests`.
pub(crate) async fn write(
    store: &RedisStore,
    client: &Name,
    text: &str,
    rests: Duration,
) -> Reply<()> {
    let key = keys::client_info(client);
    let mut set = cmd("SET");
    store.call(&key, set.arg(&key).arg(text).arg("PX").arg(millis(rests))).await.map(drop)
}

/// Reads what `client` has published.
pub(crate) async fn read(store: &RedisStore, client: &Name) -> Reply<Option<ClientInfo>> {
    let key = keys::client_info(client);
    // The key may have a long value of another program.
    let text = store.call(&key, cmd("GETRANGE").arg(&key).arg(0).arg(LONGEST - 1)).await?;
    Ok(ClientInfo::read(&replies::into_text(&text)))
}
