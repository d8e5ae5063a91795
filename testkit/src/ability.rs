//! Abilities that some servers lack.

use std::path::PathBuf;

use crate::program;

/// Fails the test if the server is older than version `major`, which introduced `what`.
///
/// `make matrix` counts such a test as not supported, and shows the message of the panic.
///
/// # Panics
///
/// If the server is older.
///
/// # Examples
///
/// ```
/// testkit::came_with(6, "access control lists");
/// ```
#[track_caller]
pub fn came_with(major: u32, what: &str) {
    if program::redis_major() < major {
        lacks(&format!("{what} came with version {major}"));
    }
}

/// Fails a test that needs an ability which this server lacks.
#[track_caller]
pub(crate) fn lacks(what: &str) -> ! {
    panic!("{NOT_SUPPORTED} `{}`: {what}", program::redis_version())
}

/// Returns the program of a server with TTLs of hash fields: the chosen server, or `redis-8.2` of
/// `make servers` if none is chosen.
///
/// # Panics
///
/// If the chosen server has no TTLs of hash fields, or if `redis-8.2` is missing.
pub(crate) fn with_field_ttls() -> PathBuf {
    match program::chosen() {
        Some(_) if has_field_ttls(program::redis_version()) => program::redis_server().to_owned(),
        Some(_) => lacks("TTLs of hash fields came with Redis 7.4 and Valkey 9"),
        None => program::of_make_servers("redis-8.2"),
    }
}

/// Reads the version from a text such as `Redis server v=7.0.15`.
fn has_field_ttls(version: &str) -> bool {
    let least = if version.starts_with("Valkey") { (9, 0) } else { (7, 4) };
    program::major_and_minor(version) >= Some(least)
}

/// The start of the message of a test that lacks an ability. `make matrix` searches for this text.
const NOT_SUPPORTED: &str = "not supported by";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_versions_with_hash_field_ttls_are_recognized() {
        for (version, has) in [
            ("Redis server v=7.2.9", false),
            ("Redis server v=7.4.0", true),
            ("Redis server v=8.2.3", true),
            ("Valkey server v=8.1.0", false),
            ("Valkey server v=9.0.0", true),
            ("something else", false),
        ] {
            assert_eq!(has_field_ttls(version), has, "{version}");
        }
    }
}
