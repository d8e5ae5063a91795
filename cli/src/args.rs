//! The command line.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser};
use clap_complete::Shell;

/// The leading spaces keep these lines separate in the man page.
const VARIABLES: &str = "\
Variables of COMMAND:
  LOCK_HELD      1
  LOCK_NAME      the name
  LOCK_OWNER     the owner, as it is in Redis
  LOCK_FENCE     the fencing token of `run --fenced`, or the term of `elect`
  LOCK_TTL_MS    the lease in milliseconds
  LOCK_DEADLINE  the end of the first lease, in milliseconds since 1970";

/// Locks for commands and scripts, on Redis.
///
/// REDIS_URL names the server. Never put a password of the server on a command line: every user of
/// the machine can see it in the list of processes.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: Server,

    #[command(subcommand)]
    pub(crate) command: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(Run),
    Lock(Lock),
    Renew(Renew),
    Unlock(Unlock),
    Wait(Wait),
    Elect(Elect),
    Show(Show),
    Ls(List),
    Top(Top),
    Ui(Ui),
    Doctor(Doctor),
    Bench(Bench),
    Completions(Completions),
    Man(Man),
}

/// Runs a command while holding a lock.
///
/// Waits for the lock, runs the command, and releases the lock. If the lock is lost, leasehold
/// stops the command: it sends TERM to the process group of the command, and KILL after the grace
/// period.
///
/// Exits with the code of the command, or with 128 plus the number of the signal that ended it.
/// Other codes: 64 wrong usage, 65 the semaphore has another number of permits, 69 Redis is
/// unreachable or rejects the request, 71 the operating system refuses something, 75 another owner
/// holds the lock, 76 the lock was lost, 126 the command is not executable, 127 the command was not
/// found.
#[derive(Args, Debug)]
#[command(after_help = VARIABLES)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) waiting: Waiting,

    /// Exits with 0 if another owner holds the lock
    #[arg(long, conflicts_with = "conflict_exit_code")]
    pub(crate) busy_ok: bool,

    #[command(flatten)]
    pub(crate) side: Side,

    /// Lets at most N commands run at the same time. All these commands must give the same N
    #[arg(long, value_name = "N", conflicts_with_all = ["fenced", "shared", "exclusive"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,

    /// Gives the command a fencing token in LOCK_FENCE. Each later hold has a higher token
    #[arg(long, conflicts_with_all = ["shared", "exclusive"])]
    pub(crate) fenced: bool,

    /// Commands acquire the lock in the order in which they began to wait. Commands with and
    /// without this option exclude each other, but must not wait for the same name
    #[arg(long, conflicts_with_all = ["fenced", "shared", "exclusive", "permits"])]
    pub(crate) fair: bool,

    /// The lease, which is renewed while the command runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// Holds the lock for at least this time from the start of the command, even if the command or
    /// leasehold ends earlier
    #[arg(long, value_name = "TIME", value_parser = period, conflicts_with = "permits")]
    pub(crate) hold_at_least: Option<Duration>,

    /// Starts the command at most once in this time, on all machines together. A command that fails
    /// or is killed counts, too
    #[arg(long, value_name = "TIME", value_parser = period, conflicts_with_all = ["permits", "shared"])]
    pub(crate) once_per: Option<Duration>,

    /// The time between TERM and KILL if the lock is lost: at most half of the lease [default: 5s,
    /// or a third of the lease if this is shorter]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,

    /// Why the command runs, for clients that wait: up to 128 bytes. Every user that can read the
    /// keys of Leasehold can read this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Does not publish the host, the process and the reason, and does not read those of the holder
    #[arg(long, conflicts_with = "reason")]
    pub(crate) no_metadata: bool,

    /// Runs this text with the shell, instead of COMMAND
    #[arg(short = 'c', long = "command", value_name = "TEXT", conflicts_with = "command")]
    pub(crate) shell: Option<OsString>,

    /// The name of the lock
    pub(crate) name: String,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "shell")]
    pub(crate) command: Vec<OsString>,
}

/// Acquires a lock for a script, and prints the token of its hold.
///
/// The hold has a fixed lease. It ends when `leasehold unlock NAME TOKEN` releases it, or when its
/// lease ends. With --fenced, the fencing token follows on the same line.
#[derive(Args, Debug)]
pub(crate) struct Lock {
    #[command(flatten)]
    pub(crate) waiting: Waiting,

    #[command(flatten)]
    pub(crate) side: Side,

    /// Also prints a fencing token. Each later hold has a higher token
    #[arg(long, conflicts_with_all = ["shared", "exclusive"])]
    pub(crate) fenced: bool,

    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The lease
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// The name of the lock
    pub(crate) name: String,
}

/// Gives a hold of `leasehold lock` a new lease, which starts now. Exits with 76 if the hold has
/// ended.
#[derive(Args, Debug)]
pub(crate) struct Renew {
    #[command(flatten)]
    pub(crate) side: Side,

    /// The lease
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// The name of the lock
    pub(crate) name: String,

    /// The token that `leasehold lock` printed
    pub(crate) token: String,
}

/// Releases a hold of `leasehold lock`, or any hold by force.
///
/// Exits with 76 if the hold has ended, and with 1 if there was nothing to release by force.
#[derive(Args, Debug)]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) side: Side,

    /// Shows the holders, asks for confirmation, and then releases all of them
    #[arg(long, conflicts_with_all = ["token", "shared", "exclusive"])]
    pub(crate) force: bool,

    /// Does not ask for confirmation
    #[arg(long, requires = "force")]
    pub(crate) yes: bool,

    /// Why the lock is released by force, for the audit record
    #[arg(long, value_name = "TEXT", requires = "force")]
    pub(crate) reason: Option<String>,

    /// The name of the lock
    pub(crate) name: String,

    /// The token that `leasehold lock` printed
    #[arg(required_unless_present = "force")]
    pub(crate) token: Option<String>,
}

/// Waits until nobody holds an object, and acquires nothing.
#[derive(Args, Debug)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) waiting: Waiting,

    /// The name of the object
    pub(crate) name: String,
}

/// Campaigns in an election, and runs a command while this process leads.
///
/// Waits until this process leads, runs the command, and steps down when the command ends. If the
/// leadership is lost, leasehold stops the command as `leasehold run` does. Without COMMAND,
/// leasehold prints its value and its term as soon as it leads, and leads until it gets a signal.
/// The exit codes are those of `leasehold run`.
#[derive(Args, Debug)]
#[command(after_help = VARIABLES)]
pub(crate) struct Elect {
    /// Prints each leader and its term. This process is not a candidate
    #[arg(long, conflicts_with_all = ["value", "http", "grace", "command"])]
    pub(crate) observe: bool,

    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The value that other clients read while this candidate leads, such as its address [default:
    /// its host and process]
    #[arg(long)]
    pub(crate) value: Option<String>,

    /// Replies to HTTP requests with the leader as JSON. The status is 200 if this process leads,
    /// else 503
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,

    /// The lease, which is renewed while this process leads. After a crash, another candidate leads
    /// within this time
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// The time between TERM and KILL if the leadership is lost: at most half of the lease
    /// [default: 5s, or a third of the lease if this is shorter]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,

    /// The name of the election
    pub(crate) name: String,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// Shows who holds an object and who waits for it.
///
/// Exits with 1 if there is no such object.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The name of the object
    pub(crate) name: String,
}

/// Lists the objects in Redis, one line for each.
///
/// Reads the keys by SCAN, at every node of a cluster. A free lock is not listed, because it has no
/// key. A latch, or a semaphore without holders, looks like a number of another program: see
/// --numbers. Maps, sets and queues look like the data of other programs: see --data.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Prints a line of JSON for each object
    #[arg(long)]
    pub(crate) json: bool,

    /// Also lists numbers: semaphores and latches, and numbers of other programs
    #[arg(long)]
    pub(crate) numbers: bool,

    /// Also lists maps, sets and queues without claims, and hashes, sets and lists of other
    /// programs
    #[arg(long)]
    pub(crate) data: bool,

    /// A pattern for the names, as for SCAN, such as 'orders:*'
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
}

/// Shows locks live in the terminal: holders, waiters, rates, losses and hazards.
///
/// Keys: arrows select, Enter shows, s sorts, r reverses, / filters, f releases by force, q quits.
#[derive(Args, Debug)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) watching: Watching,
}

/// Serves a web page that shows locks live, by default only to this machine.
///
/// Prints the address of the page. Anyone who reaches this address can read the page.
#[derive(Args, Debug)]
pub(crate) struct Ui {
    #[command(flatten)]
    pub(crate) watching: Watching,

    /// The address of the page
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8379")]
    pub(crate) listen: SocketAddr,

    /// A host name that browsers may use for the page, in addition to localhost and IP addresses
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    /// Allows the page to release locks by force. The printed address has the token for these
    /// releases
    #[arg(long)]
    pub(crate) allow_force: bool,
}

/// How the server is sampled.
#[derive(Args, Debug)]
pub(crate) struct Watching {
    /// The time between two samples
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,

    /// A pattern for the names, as for SCAN, such as 'orders:*'
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
}

/// Checks the servers, the permissions and the objects, and prints findings with their remedies.
///
/// Also acquires and releases the lock NAME:leasehold-doctor. Exits with 0 if there are only notes,
/// with 1 after a warning, with 2 after an error, and with 69 if Redis is unreachable.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The user whose permissions are checked [default: the user of the URL]
    #[arg(long)]
    pub(crate) user: Option<String>,

    /// The lease that clients use. The latency is compared with this lease
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// The only object to check, and the name whose permissions are checked [default: checks all
    /// objects, but only the permissions for commands]
    pub(crate) name: Option<String>,
}

/// Measures for some seconds how fast this server serves locks.
///
/// Acquires and releases locks of its own as fast as possible, and leaves no keys behind.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The time for each of the five measurements
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = period)]
    pub(crate) time: Duration,
}

/// Prints the completions for a shell.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// Writes the man pages into a folder.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder, such as /usr/local/share/man/man1
    pub(crate) folder: PathBuf,
}

/// How long a command waits for a lock.
#[derive(Args, Debug)]
pub(crate) struct Waiting {
    /// Does not wait: exits at once if another owner holds the lock
    #[arg(short = 'n', long = "nonblock", alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Waits at most this long: seconds such as 1.5, or a duration such as 500ms, 30s, 5m, 1h, 7d
    #[arg(short, long, alias = "timeout", value_name = "SEC", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// The exit code if another owner holds the lock
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::BUSY)]
    pub(crate) conflict_exit_code: u8,
}

impl Waiting {
    /// Returns the timeout, or `None` to wait without a limit.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }

    /// Returns the remedy for the user if another owner holds the lock.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.nonblock {
            true => "retry later, or wait with -w instead of -n",
            false => "retry later, or wait longer with -w",
        }
    }
}

/// The kind of lock: a plain lock, or a side of a read-write lock.
#[derive(Args, Debug)]
pub(crate) struct Side {
    /// Shares a read-write lock with other commands that give --shared
    #[arg(short, long, conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Excludes all commands that give --shared or --exclusive. Commands without either option use
    /// another kind of lock, so they must not use the same name
    #[arg(short = 'x', short_alias = 'e', long)]
    pub(crate) exclusive: bool,
}

/// How the server is found.
#[derive(Args, Debug)]
pub(crate) struct Server {
    /// The URL of the server, without a password [default: the first that exists of REDIS_URL, the
    /// file leasehold/url in $XDG_CONFIG_HOME or ~/.config, and the file /etc/leasehold/url]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "url_file")]
    pub(crate) url: Option<String>,

    /// A file with the URL of the server, which may have a password
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
}

/// The longest accepted duration. The clocks of Redis and of this process may be unable to
/// represent the end of a longer duration.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Parses seconds, such as `1.5`, or a number with a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err("use a number with one unit: ms, s, m, h or d; or seconds".into()),
    };
    let number: f64 = number.parse().map_err(|_| "use a number such as 1.5 or 30s".to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).ok();
    time.filter(|time| *time <= CENTURY).ok_or_else(|| "use at most 100 years".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    match interval >= Duration::from_millis(100) {
        true => Ok(interval),
        false => Err("use 100ms or more".into()),
    }
}

/// Parses a duration that Redis can keep as the TTL of a key.
fn period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time >= Duration::from_millis(1) => Ok(time),
        _ => Err("use 1ms or more".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_valid_for_clap() {
        Cli::command().debug_assert();
    }

    #[test]
    fn duration_is_read_with_and_without_a_unit() {
        for (text, millis) in [
            ("0", 0),
            ("1.5", 1_500),
            ("20ms", 20),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "s", "1w", "1h30m", "1.2.3", "-1", "1e3", "4000000000000000h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn url_option_is_read_before_and_after_the_subcommand() {
        let url = ["--url", "redis://one/"];
        for line in [&[&["leasehold"], &url[..], &["ls"]], &[&["leasehold", "ls"], &url[..], &[]]] {
            let cli = Cli::try_parse_from(line.concat()).unwrap();
            assert_eq!(cli.server.url.as_deref(), Some("redis://one/"));
        }
        let of_the_command = ["leasehold", "run", "door", "ls", "--url", "x"];
        assert_eq!(Cli::try_parse_from(of_the_command).unwrap().server.url, None);
    }

    #[test]
    fn run_accepts_the_options_of_flock() {
        let line = ["leasehold", "run", "-n", "-E", "7", "-x", "door", "ls", "-l", "--wait"];
        let command = Cli::try_parse_from(line).unwrap().command;
        let Subcommand::Run(run) = command else { panic!("{command:?}") };
        assert!(run.waiting.nonblock && run.side.exclusive);
        assert_eq!(run.waiting.conflict_exit_code, 7);
        assert_eq!(
            (run.name.as_str(), run.command.as_slice()),
            ("door", &["ls", "-l", "--wait"].map(OsString::from)[..])
        );
    }
}
