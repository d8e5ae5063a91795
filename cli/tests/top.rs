//! `leasehold top`, in a terminal of `script`.

use rustix::process::Signal;
use testkit::{Redis, eventually};

use crate::common::{
    Process, SOON, command, is_alive, kill, leasehold, ms, pid_in, with_all_signals,
};

const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
const RESTORED: &str = "\u{1b}[?1049l\u{1b}[?25h";

/// Returns a terminal in which `top` has drawn, and the process id of `top`. The shell of this
/// terminal runs `before` first.
fn top(redis: &Redis, before: &str) -> (Process, u32) {
    let program = env!("CARGO_BIN_EXE_leasehold");
    let line = format!(
        "stty rows 30 cols 120; {before} stty -g; sh -c 'echo pid $$; exec {program} top'; \
         code=$?; echo; echo code $code; stty -g"
    );
    let line = line.replace("echo; echo code $?", "code=$?; echo; echo code $code");
    let mut terminal = with_all_signals("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("REDIS_URL", redis.url());
    let terminal = Process::of(terminal);
    let pid = pid_in(terminal.wait_for("pid").trim());
    // `top` has drawn the first sample before it takes the second one.
    eventually("`top` takes its second sample", SOON, || redis.calls().of("scan") > 1);
    (terminal, pid)
}

/// Returns the lines of `stty -g`, without the speed, which a pseudo-terminal does not keep.
fn modes(out: &str) -> Vec<String> {
    let lines = out.lines().filter(|line| line.matches(':').count() > 20);
    let fields = lines.map(|line| line.trim().split(':').collect::<Vec<_>>());
    fields.map(|it| [&it[..2], &it[3..4]].concat().join(":")).collect()
}

#[test]
fn top_restores_the_terminal_after_signals_and_keys() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    for (signal, keys, code) in [
        (Some(Signal::TERM), "", 143),
        (Some(Signal::INT), "", 130),
        (Some(Signal::HUP), "", 129),
        (None, "q", 0),
        (None, "\x03", 130),
    ] {
        redis.command(&["CONFIG", "RESETSTAT"]);
        let (terminal, pid) = top(&redis, "");
        match signal {
            Some(signal) => kill(pid, signal),
            None => terminal.write(keys),
        }
        let out = terminal.ended().out;
        assert!(out.contains(&format!("\ncode {code}\r\n")), "{signal:?} {keys:?}: {out:?}");
        assert!(out.contains("\u{1b}[?1049h") && out.contains("door"), "{out:?}");
        assert!(out.contains(RESTORED), "{signal:?} {keys:?}: {out:?}");
        let modes = modes(&out);
        assert!(modes.len() == 2 && modes[0] == modes[1], "{modes:?}");
    }
}

/// If the terminal is gone, the kernel sends HUP. If HUP is ignored, as under `nohup`, the next
/// write fails.
#[test]
fn top_ends_when_its_terminal_is_gone() {
    let redis = Redis::start();
    for before in ["", "trap \"\" HUP;"] {
        redis.command(&["CONFIG", "RESETSTAT"]);
        let (terminal, pid) = top(&redis, before);
        terminal.signal(Signal::KILL);
        eventually("`top` has ended", SOON, || !is_alive(pid));
    }
}

#[test]
fn top_releases_a_lock_by_force_only_after_the_y_key() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    let (terminal, _) = top(&redis, "");
    std::thread::sleep(ms(300));
    terminal.write("f");
    std::thread::sleep(ms(1_000));
    terminal.write("n");
    std::thread::sleep(ms(300));
    assert_eq!(
        redis.command(&["EXISTS", "door"]).number(),
        1,
        "a release without confirmation has no effect"
    );
    // If the `y` comes before the question, the `y` has no effect, and this loop asks again.
    eventually("the lock is released", SOON, || {
        terminal.write("f");
        std::thread::sleep(ms(1_000));
        terminal.write("y");
        std::thread::sleep(ms(300));
        redis.command(&["EXISTS", "door"]).number() == 0
    });
    terminal.write("q");
    assert!(terminal.ended().out.contains("force?"));
}

#[test]
fn top_without_a_terminal_returns_64() {
    let redis = Redis::start();
    let ended = leasehold(&redis, &["top"]).ended();
    assert_eq!(ended.code, 64);
    assert!(
        ended.err.contains("this process has no terminal; use `leasehold ls`"),
        "{}",
        ended.err
    );
    assert_eq!(Process::of(command(&["top", "--interval", "5ms"])).ended().code, 64);
}
