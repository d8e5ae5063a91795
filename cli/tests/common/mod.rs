//! Starts `leasehold` as a process, and watches it.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Redis, eventually};

/// The time in which an immediate event happens, even on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(15);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the command `leasehold` with these words, and without a server.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = with_all_signals(env!("CARGO_BIN_EXE_leasehold"));
    command.args(words).env_remove("REDIS_URL").env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Returns a command that ignores no signal. If tests run in the background of a script, they and
/// their children would otherwise ignore INT.
pub(crate) fn with_all_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// Starts `leasehold` with these words.
pub(crate) fn leasehold(redis: &Redis, words: &[&str]) -> Process {
    let mut command = command(words);
    command.env("REDIS_URL", redis.url());
    Process::of(command)
}

/// Starts `leasehold run OPTIONS door -c TEXT`.
pub(crate) fn shell(redis: &Redis, options: &[&str], text: &str) -> Process {
    leasehold(redis, &[&["run"], options, &["door", "-c", text]].concat())
}

/// Writes `ARGV[1]` keys of all kinds, at most 100,000. Most of these keys belong to no object.
const FILL: &str = r#"
local owner, part = '8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:', 100000 / ARGV[1]
for i = 1, 25000 / part do
  redis.call('HSET', 'lock:' .. i, owner .. i, 1)
  redis.call('PEXPIRE', 'lock:' .. i, 3600000)
  redis.call('SET', 'session:' .. i, 'text')
end
for i = 1, 10000 / part do
  redis.call('HSET', 'cart:' .. i, 'total', i)
  redis.call('SET', 'visits:' .. i, i)
end
for i = 1, 5000 / part do
  redis.call('HSET', 'book:' .. i, 'mode', 'write', owner .. i .. ':write', 1)
  redis.call('PEXPIRE', 'book:' .. i, 3600000)
  redis.call('HSET', 'rate:' .. i, 'rate', 5, 'interval', 1000, 'type', 0)
end
for i = 1, 2500 / part do
  redis.call('SET', 'pool:' .. i, 3)
  redis.call('ZADD', '{pool:' .. i .. '}:timeout', 9e12, '0123456789abcdef')
  redis.call('HSET', 'fair:' .. i, owner .. i, 1)
  redis.call('RPUSH', 'redisson_lock_queue:{fair:' .. i .. '}', owner .. '1')
end
for i = 1, 2000 / part do
  redis.call('ZADD', 'ranks:' .. i, 1, 'x')
  redis.call('SADD', 'tags:' .. i, 'x')
  redis.call('RPUSH', 'jobs:' .. i, 'x')
  redis.call('ZADD', 'leasehold_queue__claimants:{work:' .. i .. '}', 9e12, owner .. i)
  redis.call('HSET', 'leasehold_queue__claims:{work:' .. i .. '}', owner .. i, '0000000000000001:x')
end
return redis.call('DBSIZE')
"#;

/// Writes this number of keys, which must divide 100,000.
pub(crate) fn fill(redis: &Redis, keys: i64) {
    assert_eq!(redis.command(&["EVAL", FILL, "0", &keys.to_string()]).number(), keys);
}

/// A running process. Dropping this value kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Mutex<Option<ChildStdin>>,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Process {
    pub(crate) fn of(mut command: Command) -> Self {
        // A process with a group of its own is in the background of any terminal.
        command.process_group(0).env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (out, reads_out) = collected(child.stdout.take().expect("stdout is a pipe"));
        let (err, reads_err) = collected(child.stderr.take().expect("stderr is a pipe"));
        let input = Mutex::new(child.stdin.take());
        Self { child, input, out, err, readers: vec![reads_out, reads_err] }
    }

    /// Waits for a line that begins with `start` in the output of the process.
    #[track_caller]
    pub(crate) fn wait_for(&self, start: &str) -> String {
        let line = || {
            let text = self.out.lock().unwrap();
            text.lines().find(|line| line.starts_with(start)).map(str::to_owned)
        };
        let mut found = None;
        let limit = if line().is_some() { ms(1) } else { SOON };
        if !poll(limit, || {
            found = line();
            found.is_some()
        }) {
            panic!(
                "no output line begins with `{start}`: stdout {:?}, stderr {:?}",
                self.out.lock(),
                self.err.lock()
            );
        }
        found.expect("the loop above found the line")
    }

    /// Waits until the process has written this text to stderr.
    #[track_caller]
    pub(crate) fn wait_for_error(&self, text: &str) {
        let what = format!("stderr contains `{text}`");
        eventually(&what, SOON, || self.err.lock().unwrap().contains(text));
    }

    pub(crate) fn write(&self, text: &str) {
        let mut input = self.input.lock().unwrap();
        input
            .as_mut()
            .expect("stdin is open")
            .write_all(text.as_bytes())
            .expect("the process reads its input");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.child.id(), signal);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processes that this process has started and that still run.
    pub(crate) fn children(&self) -> Vec<u32> {
        let id = self.pid();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub(crate) fn ended(self) -> Ended {
        self.ended_within(SOON)
    }

    #[track_caller]
    pub(crate) fn ended_within(mut self, limit: Duration) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let mut status = None;
        eventually("the process ends", limit, || {
            status = self.child.try_wait().expect("the process is a child of the test");
            status.is_some()
        });
        self.input.lock().unwrap().take();
        for reader in self.readers.drain(..) {
            reader.join().expect("the reader thread does not panic");
        }
        let status = status.expect("the process has ended");
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap_or_default());
        let text = |of: &Mutex<String>| of.lock().unwrap().clone();
        Ended { code, out: text(&self.out), err: text(&self.err) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn collected(pipe: impl Read + Send + 'static) -> (Arc<Mutex<String>>, thread::JoinHandle<()>) {
    let text = Arc::<Mutex<String>>::default();
    let into = Arc::clone(&text);
    let reader = thread::spawn(move || {
        let (mut pipe, mut line) = (BufReader::new(pipe), String::new());
        while pipe.read_line(&mut line).is_ok_and(|count| count > 0) {
            into.lock().unwrap().push_str(&line);
            line.clear();
        }
    });
    (text, reader)
}

fn poll(limit: Duration, mut check: impl FnMut() -> bool) -> bool {
    let pause = ms(3);
    let times = limit.as_millis() / pause.as_millis() + 1;
    (0..times).any(|_| {
        check() || {
            thread::sleep(pause);
            false
        }
    })
}

/// Sends a signal to a process of the test.
pub(crate) fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("the pid is not 0");
    kill_process(pid, signal).expect("the process exists");
}

/// Returns the number at the end of a line.
pub(crate) fn pid_in(line: &str) -> u32 {
    line.rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("the line ends with a number")
}

/// Returns whether a process runs. A zombie does not run.
pub(crate) fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|text| !text.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}
