//! Finds the programs that the tests start.

use std::env;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The Redis server to start: `$LEASEHOLD_SERVER`, or else `redis-server` in `$PATH`.
///
/// # Panics
///
/// If the server is missing. Then tests that need Redis fail. They are never skipped.
pub(crate) fn redis_server() -> &'static Path {
    static FOUND: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| match chosen() {
        Some(chosen) => find(&chosen).ok_or_else(|| chosen_is_missing(&chosen)),
        None => find("redis-server").ok_or_else(|| MISSING.to_owned()),
    });
    FOUND.as_deref().unwrap_or_else(|missing| panic!("{missing}"))
}

/// The server that `$LEASEHOLD_SERVER` names. `make matrix` sets this variable.
pub(crate) fn chosen() -> Option<String> {
    env::var(CHOICE).ok()
}

/// The server `name` of `make servers`.
///
/// # Panics
///
/// If the server is missing. Then tests that need the server fail. They are never skipped.
pub(crate) fn of_make_servers(name: &str) -> PathBuf {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers");
    let program = servers.join(name).join("bin/redis-server");
    assert!(program.is_file(), "{name} is missing: get it with `make servers ON={name}`");
    program
}

fn chosen_is_missing(chosen: &str) -> String {
    format!("{CHOICE} is `{chosen}`, which is missing: `make servers` gets those in target/servers")
}

/// A program of the PostgreSQL server. The program is in `$POSTGRES_BIN`, in the folder of Debian,
/// or in `$PATH`.
///
/// # Panics
///
/// If the program is missing. Then tests that need PostgreSQL fail. They are never skipped.
pub(crate) fn postgres(name: &str) -> PathBuf {
    let found = match env::var_os("POSTGRES_BIN") {
        Some(dir) => Some(PathBuf::from(dir).join(name)).filter(|file| file.is_file()),
        None => newest_of_debian(name).or_else(|| find(name)),
    };
    found.unwrap_or_else(|| panic!("{NO_POSTGRES}"))
}

/// The path of a program in Debian's folder of the newest version, such as
/// `/usr/lib/postgresql/17/bin/…`.
fn newest_of_debian(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
    let version = |entry: &DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let programs = versions.filter_map(|entry| Some((version(&entry)?, entry.path())));
    let programs = programs.map(|(version, dir)| (version, dir.join("bin").join(name)));
    programs.filter(|(_, file)| file.is_file()).max().map(|(_, file)| file)
}

/// `setpriv` from util-linux, if this system has it.
pub(crate) fn setpriv() -> Option<&'static Path> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| find("setpriv"));
    FOUND.as_deref()
}

/// The first number in the version of [`redis_server`].
pub(crate) fn redis_major() -> u32 {
    static MAJOR: LazyLock<u32> = LazyLock::new(|| {
        let version = redis_version();
        major_and_minor(version).unwrap_or_else(|| panic!("no version in: {version}")).0
    });
    *MAJOR
}

/// Returns the version text of [`redis_server`], such as `Redis server v=7.0.15`.
pub(crate) fn redis_version() -> &'static str {
    static SAID: LazyLock<String> = LazyLock::new(|| {
        let text_out = Command::new(redis_server()).arg("--version").output();
        let text_out = text_out.expect("redis-server --version should run").stdout;
        let text_out = String::from_utf8_lossy(&text_out);
        text_out.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
    });
    &SAID
}

/// Reads the version from a text such as `Redis server v=7.0.15`.
pub(crate) fn major_and_minor(text_out: &str) -> Option<(u32, u32)> {
    let mut numbers = text_out.split_once("v=")?.1.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Finds a program as a shell does: a path with a slash, or a name in `$PATH`.
fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The environment variable that chooses the server for the tests.
const CHOICE: &str = "LEASEHOLD_SERVER";

const MISSING: &str = "redis-server is missing: install it with `apt-get install -y redis-server`";

const NO_POSTGRES: &str = "PostgreSQL is missing: install it with \
    `sudo apt-get install -y --no-install-recommends postgresql`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_redis_and_valkey_are_read() {
        assert_eq!(major_and_minor("Redis server v=7.0.15"), Some((7, 0)));
        assert_eq!(major_and_minor("Valkey server v=8.1.0"), Some((8, 1)));
        assert_eq!(major_and_minor("something else"), None);
    }

    #[test]
    fn server_programs_are_found_by_name_and_by_path() {
        let sh = find("sh").unwrap();
        assert_eq!(find(sh.to_str().unwrap()), Some(sh));
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("/no/such/program"), None);
    }
}
