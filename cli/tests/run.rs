//! `leasehold run`, with real processes and a real Redis.

use std::thread::sleep;

use rustix::process::Signal;
use testkit::{Redis, eventually};

use crate::common::{
    Process, SOON, command, is_alive, kill, leasehold, ms, pid_in, shell, with_all_signals,
};

#[test]
fn command_runs_under_the_lock_and_returns_its_code() {
    let redis = Redis::start();
    let ended = leasehold(&redis, &["run", "door", "--", "sh", "-c", "echo out; exit 7"]).ended();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (7, "out\n", ""));
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);

    let process = leasehold(&redis, &["run", "door", "-c", "echo ready; read line; echo $line"]);
    process.wait_for("ready");
    assert_eq!(redis.command(&["HLEN", "door"]).number(), 1);
    process.write("done\n");
    let ended = process.ended();
    assert_eq!((ended.code, ended.out.as_str()), (0, "ready\ndone\n"));
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn run_returns_128_plus_the_signal_of_a_killed_command() {
    let redis = Redis::start();
    for (name, code) in [("TERM", 143), ("KILL", 137), ("USR1", 138)] {
        let ended = shell(&redis, &[], &format!("kill -{name} $$")).ended();
        assert_eq!(ended.code, code, "{name}: {}", ended.err);
    }
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn run_returns_126_or_127_when_the_command_cannot_start() {
    let redis = Redis::start();
    for (program, code) in [("no-such-command", 127), ("/etc/passwd", 126)] {
        let ended = leasehold(&redis, &["run", "door", "--", program]).ended();
        assert_eq!(ended.code, code, "{}", ended.err);
        assert!(ended.err.starts_with(&format!("leasehold: run `{program}`: ")), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn run_returns_64_for_wrong_usage() {
    let redis = Redis::start();
    for words in [
        &["run", "door"][..],
        &["run", "--no-such-option", "door", "true"],
        &["run", "-s", "-x", "door", "true"],
        &["run", "", "true"],
        &["run", "--ttl", "soon", "door", "true"],
        &["run", "--ttl", "0", "door", "true"],
        &["run", "--ttl", "9s", "--grace", "5s", "door", "true"],
        &["run", "--permits", "0", "door", "true"],
        &["run", "--url", "nonsense", "door", "true"],
        &["run", "--fair", "--fenced", "door", "true"],
        &["run", "--hold-at-least", "0", "door", "true"],
        &["run", "--once-per", "1h", "-s", "door", "true"],
    ] {
        let ended = leasehold(&redis, words).ended();
        assert_eq!((ended.code, ended.out.as_str()), (64, ""), "{words:?}: {}", ended.err);
        assert!(!ended.err.is_empty(), "{words:?}");
    }
}

#[test]
fn password_on_the_command_line_is_refused() {
    let redis = Redis::options().password("secret").start();
    let url = redis.url_with_password();
    let ended = leasehold(&redis, &["run", "--url", &url, "door", "true"]).ended();
    assert_eq!(ended.code, 64);
    assert_eq!(
        ended.err,
        "leasehold: read `--url`: the URL has a password, which every user of this machine can see \
         in the list of processes; write the URL to a file that only you can read, and pass its \
         path with --url-file, or set the variable REDIS_URL\n"
    );

    // The same URL works in a file, and in the environment.
    let file = redis.dir().join("url");
    std::fs::write(&file, format!("{url}\n")).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(leasehold(&redis, &["run", "--url-file", file, "door", "true"]).ended().code, 0);
    let mut by_environment = command(&["run", "door", "true"]);
    by_environment.env("REDIS_URL", &url);
    assert_eq!(Process::of(by_environment).ended().code, 0);

    let config = redis.dir().join("config/leasehold");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("url"), url).unwrap();
    let mut by_config = command(&["run", "door", "true"]);
    by_config.env("XDG_CONFIG_HOME", redis.dir().join("config"));
    assert_eq!(Process::of(by_config).ended().code, 0);
}

#[test]
fn run_returns_64_without_a_redis_url() {
    let ended = Process::of(command(&["run", "door", "true"])).ended();
    assert_eq!(ended.code, 64);
    assert!(ended.err.contains("set REDIS_URL, or use --url or --url-file"), "{}", ended.err);
}

#[test]
fn run_reads_no_url_from_the_working_folder_if_home_is_empty() {
    use std::os::unix::ffi::OsStrExt;
    let redis = Redis::start();
    for folder in ["leasehold", ".config/leasehold"] {
        std::fs::create_dir_all(redis.dir().join(folder)).unwrap();
        std::fs::write(redis.dir().join(folder).join("url"), redis.url()).unwrap();
    }
    let run = |url: &[u8]| {
        let mut run = command(&["run", "door", "true"]);
        run.current_dir(redis.dir()).env("XDG_CONFIG_HOME", "").env("HOME", "");
        if !url.is_empty() {
            run.env("REDIS_URL", std::ffi::OsStr::from_bytes(url)).env("HOME", redis.dir());
        }
        Process::of(run).ended()
    };
    for (url, cause) in [(&b""[..], "no URL"), (b"redis://:\xff@host/", "read `$REDIS_URL`: ")] {
        let ended = run(url);
        assert_eq!(ended.code, 64, "{}", ended.err);
        assert!(ended.err.contains(cause), "{}", ended.err);
    }
}

#[test]
fn error_of_a_wrong_url_names_its_source() {
    let config = std::env::temp_dir().join(format!("leasehold-url-{}", std::process::id()));
    let file = config.join("leasehold/url");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (variable, text, source) in [
        (Some(""), "", "$REDIS_URL"),
        (Some("redis://host/?foo=bar"), "", "$REDIS_URL"),
        (None, "", file.to_str().unwrap()),
        (None, "REDIS_URL=redis://host/", file.to_str().unwrap()),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut run = command(&["run", "door", "true"]);
        run.env("XDG_CONFIG_HOME", &config).envs(variable.map(|url| ("REDIS_URL", url)));
        let ended = Process::of(run).ended();
        assert_eq!(ended.code, 64, "{}", ended.err);
        let names_it = ended.err.starts_with(&format!("leasehold: read `{source}`: invalid URL: "));
        assert!(names_it && !ended.err.contains("ClientBuilder"), "{}", ended.err);
    }
    std::fs::remove_dir_all(&config).unwrap();
    let missing = ["run", "--url-file", file.to_str().unwrap(), "door", "true"];
    let ended = Process::of(command(&missing)).ended();
    assert!(ended.code == 64 && ended.err.contains("check its path"), "{}", ended.err);
}

#[test]
fn run_returns_69_without_a_server_or_a_key_permission() {
    let redis = Redis::start();
    let url = redis.user("narrow", &["+@all", "&*", "~other"]);
    let mut denied = command(&["run", "door", "true"]);
    denied.env("REDIS_URL", url);
    let ended = Process::of(denied).ended();
    assert_eq!(ended.code, 69);
    assert!(ended.err.starts_with("leasehold: access to `door` denied: "), "{}", ended.err);

    redis.stop();
    let ended = leasehold(&redis, &["run", "door", "true"]).ended();
    assert_eq!(ended.code, 69);
    assert!(ended.err.starts_with("leasehold: cannot connect to "), "{}", ended.err);
}

#[test]
fn run_returns_75_or_the_chosen_code_when_the_lock_is_held() {
    let redis = Redis::start();
    let owner = "7cae9535-ade0-45cb-8304-9cc9b0d1359c:7";
    redis.command(&["HSET", "door", owner, "1"]);
    redis.command(&["PEXPIRE", "door", "60000"]);
    let (wait, wait_longer) = (
        "; retry later, or wait with -w instead of -n\n",
        "; retry later, or wait longer with -w\n",
    );
    for (words, code, remedy) in [
        (&["-n"][..], 75, wait),
        (&["-w", "0"], 75, wait_longer),
        (&["-w", "0.2"], 75, wait_longer),
        (&["-n", "-E", "9"], 9, wait),
        (&["-n", "--fenced"], 75, wait),
    ] {
        let ended = shell(&redis, words, "echo never").ended();
        assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{words:?}: {}", ended.err);
        let held = format!("leasehold: acquire `door`: held by `{owner}`");
        assert!(ended.err.starts_with(&held) && ended.err.ends_with(remedy), "{}", ended.err);
    }
    // A user may mistake a hash of another program for a lock.
    redis.command(&["HSET", "settings", "color", "red"]);
    let ended = leasehold(&redis, &["run", "-n", "settings", "true"]).ended();
    assert!(ended.code == 75 && ended.err.contains("another program"), "{}", ended.err);
    let ended = shell(&redis, &["-n", "--busy-ok"], "echo never").ended();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""));
}

#[test]
fn run_with_no_metadata_publishes_no_client_info() {
    let redis = Redis::start();
    let words = ["run", "--no-metadata", "gate", "-c", "echo ready; read line"];
    let silent = leasehold(&redis, &words);
    silent.wait_for("ready");
    let later = shell(&redis, &[], "echo ready; read line");
    later.wait_for("ready");
    let is_published = |name| {
        let shown = leasehold(&redis, &["show", name]).ended().out;
        shown.contains("leasehold run ")
    };
    eventually("the second client has published its info", SOON, || is_published("door"));
    assert!(!is_published("gate"));
}

#[test]
fn run_error_names_the_process_and_the_reason_of_the_holder() {
    let redis = Redis::start();
    let holder = shell(&redis, &["--reason", "nightly close"], "echo ready; read line");
    holder.wait_for("ready");
    let (name, pid) = ("door: lock", format!("(pid {})", holder.pid()));
    eventually("the holder has published its info", SOON, || {
        let shown = leasehold(&redis, &["show", "door"]).ended().out;
        shown.starts_with(name) && shown.contains(&pid) && shown.contains("\"nightly close\"")
    });
    let ended = shell(&redis, &["-w", "0.5"], "true").ended();
    assert_eq!(ended.code, 75);
    assert!(ended.err.contains("`door`: held by leasehold run "), "{}", ended.err);
    assert!(
        ended.err.contains(&pid) && ended.err.contains("reason `nightly close`"),
        "{}",
        ended.err
    );
    let busy = leasehold(&redis, &["lock", "-n", "--ttl", "1s", "door"]).ended();
    assert!(busy.code == 75 && busy.err.contains(&pid), "{}", busy.err);
    let listed = leasehold(&redis, &["ls"]).ended().out;
    assert!(listed.contains(&pid) && listed.contains(", reason \"nightly close\", "), "{listed}");
    holder.write("\n");
}

#[test]
fn ten_commands_under_the_same_lock_never_overlap() {
    let redis = Redis::start();
    let order = redis.dir().join("order");
    let text = format!("echo in >> {0}; sleep 0.02; echo out >> {0}", order.display());
    let all: Vec<_> = (0..10).map(|_| shell(&redis, &[], &text)).collect();
    assert!(all.into_iter().all(|process| process.ended().code == 0));
    assert_eq!(std::fs::read_to_string(order).unwrap(), "in\nout\n".repeat(10));
}

#[test]
fn only_one_of_ten_commands_runs_with_the_nonblock_option() {
    let redis = Redis::start();
    let all: Vec<_> = (0..10).map(|_| shell(&redis, &["-n"], "sleep 3")).collect();
    let mut codes: Vec<_> = all.into_iter().map(|process| process.ended().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 75, 75, 75, 75, 75, 75, 75, 75, 75]);
}

#[test]
fn waiting_command_ends_by_a_signal_and_leaves_the_queue() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", "java:7", "1"]);
    redis.command(&["PEXPIRE", "door", "60000"]);
    let queue = "leasehold_lock__queue:{door}";
    for (signal, code) in
        [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let waiting = shell(&redis, &[], "echo never");
        eventually("the waiter is in the queue", SOON, || {
            redis.command(&["EXISTS", queue]).number() == 1
        });
        waiting.signal(signal);
        let ended = waiting.ended();
        assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{}", ended.err);
        assert_eq!(redis.command(&["EXISTS", queue]).number(), 0);
    }
}

#[test]
fn waiting_command_reports_an_outage() {
    let redis = Redis::start();
    let holder = shell(&redis, &["--ttl", "60s"], "echo ready; read line");
    holder.wait_for("ready");
    let waiting = [shell(&redis, &[], "echo mine"), shell(&redis, &[], "echo mine")];
    let queue = "leasehold_lock__queue:{door}";
    eventually("both waiters are in the queue", SOON, || {
        redis.command(&["ZCARD", queue]).number() == 2
    });
    redis.pause();
    waiting.iter().for_each(|it| it.wait_for_error("; still waiting\n"));
    let [one, other] = waiting;
    one.signal(Signal::TERM);
    let ended = one.ended();
    let last = ended.err.lines().rev().nth(1).unwrap_or_default();
    assert!(
        ended.code == 143 && last.contains("confirm in time that nothing is held"),
        "{}",
        ended.err
    );
    redis.resume();
    other.wait_for_error("leasehold: reach server: the server replies again\n");
    holder.write("\n");
    other.wait_for("mine");
    let ended = other.ended();
    assert_eq!((ended.code, ended.err.lines().count()), (0, 2), "{}", ended.err);
}

#[test]
fn signals_reach_the_process_group_of_the_command() {
    let redis = Redis::start();
    let inner = "trap 'echo inner; exit 3' TERM; echo ready; while :; do sleep 0.02; done";
    let outer = format!("trap 'echo outer' USR1; sh -c \"{inner}\"; exit 4");
    let process = shell(&redis, &[], &outer);
    process.wait_for("ready");
    process.signal(Signal::TERM);
    let ended = process.ended();
    assert_eq!(ended.code, 143);
    assert_eq!(ended.out, "ready\ninner\n");

    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::CONT, "CONT"),
    ] {
        let text =
            format!("trap 'echo {name}; exit 5' {name}; echo ready; while :; do sleep 0.02; done");
        let process = shell(&redis, &[], &text);
        process.wait_for("ready");
        process.signal(signal);
        let ended = process.ended();
        assert_eq!((ended.code, ended.out), (5, format!("ready\n{name}\n")), "{}", ended.err);
    }
}

#[test]
fn suspended_command_keeps_the_lock_and_can_continue() {
    let redis = Redis::start();
    let process = shell(&redis, &[], "echo own $$; read line; exit 7");
    let stat = format!("/proc/{}/stat", pid_in(&process.wait_for("own")));
    let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
    process.signal(Signal::TSTP);
    eventually("the command is stopped", SOON, is_stopped);
    process.write("\n");
    sleep(ms(100));
    assert!(is_stopped() && redis.command(&["EXISTS", "door"]).number() == 1);
    process.signal(Signal::CONT);
    assert_eq!(process.ended().code, 7);
}

#[test]
fn second_sigterm_kills_the_command() {
    let redis = Redis::start();
    let process =
        shell(&redis, &[], "trap 'echo term' TERM; echo ready; while :; do sleep 0.02; done");
    process.wait_for("ready");
    process.signal(Signal::TERM);
    process.wait_for("term");
    process.signal(Signal::TERM);
    assert_eq!(process.ended().code, 137);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn command_ignores_a_signal_that_the_parent_ignores() {
    let redis = Redis::start();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let text = format!("trap '' HUP; exec {program} run door -c 'echo ready; read line; exit 6'");
    let mut nohup = with_all_signals("sh");
    nohup.args(["-c", &text]).env("REDIS_URL", redis.url());
    let process = Process::of(nohup);
    process.wait_for("ready");
    process.signal(Signal::HUP);
    sleep(ms(200));
    process.write("\n");
    assert_eq!(process.ended().code, 6);
}

/// If a parent ignores SIGCHLD, as a minimal init does, its children ignore it, too.
#[test]
fn run_returns_the_exit_code_even_if_sigchld_is_ignored() {
    let redis = Redis::start();
    let mut parent = with_all_signals("env");
    let words = ["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_leasehold")];
    parent.args(words).args(["run", "door", "-c", "exit 6"]).env("REDIS_URL", redis.url());
    let ended = Process::of(parent).ended();
    assert_eq!(ended.code, 6, "{}", ended.err);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn lost_lock_ends_the_command_and_returns_76() {
    let redis = Redis::start();
    let text = "trap 'echo term >&2; exit' TERM; echo ready; while :; do sleep 0.02; done";
    let process = shell(&redis, &["--ttl", "1s"], text);
    process.wait_for("ready");
    redis.command(&["DEL", "door"]);
    let ended = process.ended();
    assert_eq!(ended.code, 76);
    let (before, after) =
        ended.err.split_once("\nterm\n").expect("the command writes `term` when it receives TERM");
    assert!(before.starts_with("leasehold: run `door`: lock lost: "), "{before}");
    assert!(before.contains("; the command gets TERM"), "{before}");
    assert!(after.ends_with("; check the result of the command\n"), "{after}");
}

#[test]
fn command_that_ignores_term_is_killed_with_its_descendants() {
    let redis = Redis::start();
    let ignores = "trap '' TERM; echo pid $$; while :; do sleep 0.02; done";
    let text = format!("trap '' TERM; sh -c \"{}\" & wait", ignores.replace('$', "\\$"));
    let process = shell(&redis, &["--ttl", "1s", "--grace", "300ms"], &text);
    let descendant = pid_in(&process.wait_for("pid"));
    redis.command(&["DEL", "door"]);
    assert_eq!(process.ended().code, 76);
    eventually("the descendant has ended", SOON, || !is_alive(descendant));
}

/// The command itself ends at TERM, so only its group shows that a process is left.
#[test]
fn descendant_that_outlives_its_command_is_killed() {
    let redis = Redis::start();
    let ignores = "trap '' TERM; echo pid \\$\\$; while :; do sleep 0.02; done";
    let text = format!("sh -c \"{ignores}\" & wait");
    let process = shell(&redis, &["--ttl", "1s", "--grace", "300ms"], &text);
    let descendant = pid_in(&process.wait_for("pid"));
    redis.command(&["DEL", "door"]);
    eventually("the descendant has ended after the loss", SOON, || !is_alive(descendant));
    assert_eq!(process.ended().code, 76);

    let process = shell(&redis, &["--grace", "500ms"], &text);
    let descendant = pid_in(&process.wait_for("pid"));
    process.signal(Signal::TERM);
    eventually("the descendant has ended after TERM", SOON, || {
        let is_held = redis.command(&["EXISTS", "door"]).number() == 1;
        let is_alive = is_alive(descendant);
        assert!(is_held || !is_alive, "the descendant does not run without the lock");
        !is_alive
    });
    assert_eq!(process.ended().code, 143);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

/// The killed descendant stays a zombie of its group, because its parent, in another group, does not
/// reap it. For `leasehold`, it looks like a process that the kernel cannot end yet.
#[test]
fn lock_is_held_until_a_killed_descendant_is_gone_or_2_s_pass() {
    let redis = Redis::start();
    let ignores = "trap '' TERM; until grep -q sleep /proc/$PPID/comm; do sleep 0.02; done; \
                   echo pid $$; while :; do sleep 0.02; done";
    let text = format!(
        "(sh -c \"{}\" & exec setsid sleep 10 >/dev/null 2>&1) & wait",
        ignores.replace('$', "\\$")
    );
    let process = shell(&redis, &["--grace", "300ms"], &text);
    let descendant = pid_in(&process.wait_for("pid"));
    process.signal(Signal::TERM);
    eventually("the descendant is killed", SOON, || !is_alive(descendant));
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 1);
    let ended = process.ended();
    assert_eq!(ended.code, 143);
    let warning = " still exists 2s after KILL; check its processes";
    assert!(ended.err.contains(warning), "{}", ended.err);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

/// Both TERM and the end of the grace period come before the end of the lease.
#[test]
fn command_ends_before_its_lease_ends_when_redis_is_silent() {
    let redis = Redis::start();
    let text = "trap 'echo term; exit' TERM; echo pid $$; while :; do sleep 0.02; done";
    let process = shell(&redis, &["--ttl", "2s", "--grace", "500ms"], text);
    let child = pid_in(&process.wait_for("pid"));
    redis.pause();
    eventually("the command has ended", ms(2_000), || !is_alive(child));
    redis.resume();
    let ended = process.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
    assert!(ended.out.contains("\nterm\n"), "{}", ended.out);
}

#[test]
fn command_ends_before_its_lease_ends_when_redis_is_killed() {
    let redis = Redis::start();
    let text = "echo pid $$; while :; do sleep 0.02; done";
    let process = shell(&redis, &["--ttl", "2s", "--grace", "500ms"], text);
    let child = pid_in(&process.wait_for("pid"));
    redis.stop();
    eventually("the command has ended", ms(2_000), || !is_alive(child));
    let ended = process.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
}

#[test]
fn killed_command_releases_the_lock_and_returns_137() {
    let redis = Redis::start();
    let process = shell(&redis, &[], "echo own $$; while :; do sleep 0.02; done");
    kill(pid_in(&process.wait_for("own")), Signal::KILL);
    let ended = process.ended();
    assert_eq!(ended.code, 137, "{}", ended.err);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn command_dies_when_leasehold_is_killed() {
    let redis = Redis::start();
    let text = "sh -c 'echo pid $$; while :; do sleep 0.02; done' & echo own $$; wait";
    let process = shell(&redis, &[], text);
    let (child, descendant) = (pid_in(&process.wait_for("own")), pid_in(&process.wait_for("pid")));
    assert!(is_alive(child) && is_alive(descendant));
    process.signal(Signal::KILL);
    eventually("the command and its descendant have ended", SOON, || {
        !is_alive(child) && !is_alive(descendant)
    });
    assert_eq!(
        redis.command(&["EXISTS", "door"]).number(),
        1,
        "the lease lasts longer than both processes"
    );
}

/// The kernel kills the command, even if the watcher cannot.
#[test]
fn command_dies_with_leasehold_although_its_watcher_was_killed() {
    let redis = Redis::start();
    let process = shell(&redis, &[], "echo own $$; while :; do sleep 0.02; done");
    let child = pid_in(&process.wait_for("own"));
    let others = process.children();
    let watcher = others.into_iter().find(|pid| *pid != child).expect("the process has a watcher");
    kill(watcher, Signal::KILL);
    process.signal(Signal::KILL);
    eventually("the command has ended", SOON, || !is_alive(child));
}

#[test]
fn command_dies_before_its_lease_ends_if_leasehold_is_stopped() {
    let redis = Redis::start();
    let process = shell(&redis, &["--ttl", "1s"], "echo own $$; while :; do sleep 0.02; done");
    let child = pid_in(&process.wait_for("own"));
    process.signal(Signal::STOP);
    let held = || redis.command(&["EXISTS", "door"]).number() == 1;
    eventually("the command has ended", ms(1_500), || !is_alive(child));
    eventually("the lease has ended", SOON, || !held());
    process.signal(Signal::CONT);
    assert_eq!(process.ended().code, 76);
}

#[test]
fn command_reads_its_lock_from_environment_variables() {
    let redis = Redis::start();
    let print =
        "echo $LOCK_HELD $LOCK_NAME $LOCK_OWNER $LOCK_TTL_MS $LOCK_DEADLINE fence=$LOCK_FENCE";
    let ended = shell(&redis, &["--fenced", "--ttl", "20s"], print).ended();
    let words: Vec<_> = ended.out.split_whitespace().collect();
    let [held, name, owner, ttl, deadline, fence] = words[..] else { panic!("{}", ended.out) };
    assert_eq!((held, name, ttl, fence), ("1", "door", "20000", "fence=1"));
    assert!(owner.len() > 36 && owner.contains(':'), "{owner}");
    let deadline: i64 = deadline.parse().unwrap();
    let now = redis.command(&["TIME"]).list()[0].text().parse::<i64>().unwrap() * 1_000;
    assert!((now + 10_000..now + 21_000).contains(&deadline), "{deadline} at {now}");

    // An inner lock replaces all variables.
    let inner = "echo $LOCK_NAME fence=$LOCK_FENCE";
    let program = env!("CARGO_BIN_EXE_leasehold");
    let nested = format!("{inner}; {program} run inner -c '{inner}'; {inner}");
    let ended = shell(&redis, &["--fenced"], &nested).ended();
    assert_eq!(ended.out, "door fence=2\ninner fence=\ndoor fence=2\n");
}

#[test]
fn shared_lock_admits_shared_commands_and_no_exclusive_command() {
    let redis = Redis::start();
    let reader = shell(&redis, &["-s"], "echo ready; read line");
    reader.wait_for("ready");
    assert_eq!(shell(&redis, &["-s", "-n"], "true").ended().code, 0);
    let busy = shell(&redis, &["-x", "-n"], "true").ended();
    assert!(busy.code == 75 && busy.err.contains("held by "), "{}", busy.err);
    // A command with a plain lock of this name does not run either.
    assert_ne!(shell(&redis, &["-n"], "true").ended().code, 0);
    reader.write("\n");
    assert_eq!(reader.ended().code, 0);
    assert_eq!(shell(&redis, &["-x", "-n"], "true").ended().code, 0);
}

#[test]
fn semaphore_limits_the_number_of_running_commands() {
    let redis = Redis::start();
    let two = &["--permits", "2", "-n"];
    let holders = [0, 1].map(|_| shell(&redis, two, "echo ready; read line"));
    holders.iter().for_each(|it| drop(it.wait_for("ready")));
    let third = shell(&redis, two, "true").ended();
    assert_eq!(third.code, 75);
    let text = "all 2 permits are held; retry later, or wait with -w instead of -n";
    assert!(third.err.contains(text), "{}", third.err);
    let other = shell(&redis, &["--permits", "3", "-n"], "true").ended();
    assert_eq!(other.code, 65);
    assert!(other.err.contains("the semaphore has 2 permits, not 3"), "{}", other.err);
    holders.iter().for_each(|it| it.write("\n"));
    assert!(holders.into_iter().all(|it| it.ended().code == 0));
    assert_eq!(redis.command(&["GET", "door"]).text(), "2");
}

#[test]
fn waiting_command_sets_the_permit_count_again_after_data_loss() {
    let redis = Redis::start();
    let words = &["--permits", "1", "--ttl", "1s"];
    let holder = shell(&redis, words, "echo ready; while :; do sleep 0.02; done");
    holder.wait_for("ready");
    let waiting = shell(&redis, words, "echo mine");
    let channel = "redisson_sc:{door}";
    eventually("the waiter is subscribed", SOON, || {
        redis.command(&["PUBSUB", "CHANNELS", channel]).list().len() == 1
    });
    redis.command(&["FLUSHALL"]);
    assert_eq!(holder.ended().code, 76);
    waiting.wait_for("mine");
    assert_eq!(waiting.ended().code, 0);
}

#[test]
fn lost_permit_ends_the_command() {
    let redis = Redis::start();
    let words = &["--permits", "1", "--ttl", "1s"];
    let process = shell(&redis, words, "echo ready; while :; do sleep 0.02; done");
    process.wait_for("ready");
    redis.command(&["DEL", "{door}:timeout"]);
    assert_eq!(process.ended().code, 76);
}

/// A process group in the background could not read from the terminal.
#[test]
fn command_reads_from_the_terminal_in_the_foreground() {
    let redis = Redis::start();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let line = format!("{program} run door -c 'echo ready; read line; echo got $line; exit 5'");
    let mut terminal = with_all_signals("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("REDIS_URL", redis.url());
    let process = Process::of(terminal);
    process.wait_for("ready");
    process.write("words\n");
    let ended = process.ended();
    assert!(ended.out.contains("got words"), "{}", ended.out);
    assert_eq!(ended.code, 5);
}

#[test]
fn ctrl_c_at_the_terminal_reaches_the_command_only_once() {
    let redis = Redis::start();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let text = "trap \"echo once\" INT; echo ready; read a; read b; echo end";
    let line = format!("{program} run door -c '{text}'");
    let mut terminal = with_all_signals("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("REDIS_URL", redis.url());
    let process = Process::of(terminal);
    process.wait_for("ready");
    process.write("\x03");
    process.wait_for("^Conce");
    sleep(ms(200));
    process.write("one\ntwo\n");
    assert_eq!(process.ended().out.matches("once").count(), 1);
}

#[test]
fn commands_under_a_fair_lock_run_in_the_order_of_their_start() {
    let redis = Redis::start();
    let holder = shell(&redis, &["--fair"], "echo ready; read line");
    holder.wait_for("ready");
    let order = redis.dir().join("order");
    let waiters: Vec<_> = (0..4)
        .map(|number| {
            let text = format!("echo {number} >> {}", order.display());
            let waiter = shell(&redis, &["--fair"], &text);
            let queue = "redisson_lock_queue:{door}";
            let count = || redis.command(&["LLEN", queue]).number();
            eventually("the waiter is in the queue", SOON, || count() == number + 1);
            waiter
        })
        .collect();
    assert_eq!(shell(&redis, &["--fair", "-n"], "true").ended().code, 75);
    holder.write("\n");
    assert!(waiters.into_iter().all(|waiter| waiter.ended().code == 0));
    assert_eq!(std::fs::read_to_string(order).unwrap(), "0\n1\n2\n3\n");
}

#[test]
fn hold_at_least_option_keeps_the_lock_after_a_short_command() {
    let redis = Redis::start();
    for (options, text, code) in [
        (&["--hold-at-least", "60s"][..], "true", 0),
        (&["--hold-at-least", "60s", "--fenced"], "exit 3", 3),
        (&["--hold-at-least", "60s", "--fair"], "kill -KILL $$", 137),
        (&["--hold-at-least", "60s", "-x"], "true", 0),
    ] {
        let ended = shell(&redis, options, text).ended();
        assert_eq!((ended.code, ended.err.as_str()), (code, ""), "{options:?}");
        let left = redis.command(&["PTTL", "door"]).number();
        assert!((40_000..=60_000).contains(&left), "{options:?}: {left}");
        assert_eq!(shell(&redis, &[options, &["-n"]].concat(), "true").ended().code, 75);
        redis.command(&["DEL", "door"]);
    }
    // If the command takes longer than `--hold-at-least`, its end releases the lock.
    assert_eq!(shell(&redis, &["--hold-at-least", "200ms"], "sleep 0.4").ended().code, 0);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn hold_at_least_option_keeps_the_lock_of_a_killed_leasehold() {
    let redis = Redis::start();
    let words = &["--ttl", "1s", "--hold-at-least", "60s"];
    let process = shell(&redis, words, "echo ready; sleep 60");
    process.wait_for("ready");
    sleep(ms(1_200));
    process.signal(Signal::KILL);
    let left = redis.command(&["PTTL", "door"]).number();
    assert!(left > 40_000, "{left}");
}

#[test]
fn option_once_per_runs_one_of_ten_commands_in_each_period() {
    let redis = Redis::start();
    let text = "echo started; exit 3";
    let once = &["--once-per", "3s"];
    let all: Vec<_> = (0..10).map(|_| shell(&redis, once, text)).collect();
    let ended: Vec<_> = all.into_iter().map(Process::ended).collect();
    let mut codes: Vec<_> = ended.iter().map(|it| it.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [3, 75, 75, 75, 75, 75, 75, 75, 75, 75], "a failed command counts as a run");
    let late = ended.iter().find(|it| it.code == 75).unwrap();
    assert!(
        late.err.contains("the command has already started in this period; retry in "),
        "{}",
        late.err
    );
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
    // In the next period, the command runs again.
    eventually("the period ends", SOON, || shell(&redis, once, text).ended().code == 3);
}

#[test]
fn once_per_option_counts_a_killed_command_as_a_run() {
    let redis = Redis::start();
    let once = &["--once-per", "1h", "--ttl", "1s"];
    let process = shell(&redis, once, "echo ready; sleep 60");
    process.wait_for("ready");
    process.signal(Signal::KILL);
    let other = shell(&redis, once, "echo never").ended();
    assert_eq!((other.code, other.out.as_str()), (75, ""), "{}", other.err);
    let quiet = shell(&redis, &["--once-per", "1h", "--busy-ok"], "echo never").ended();
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (0, "", ""));
    let period = redis.command(&["PTTL", "leasehold_run__started:{door}"]).number();
    assert!((3_500_000..=3_600_000).contains(&period), "{period}");
    let listed = leasehold(&redis, &["ls", "--numbers"]).ended().out;
    assert!(listed.starts_with("door\tlock\tfree\t") && listed.lines().count() == 1, "{listed}");
}
