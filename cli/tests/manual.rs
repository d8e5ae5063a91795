//! `leasehold completions` and `leasehold man`.

use std::fs;

use crate::common::{Process, command};

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = Process::of(command(&["completions", shell])).ended();
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(ended.out.contains("leasehold") && ended.out.contains("busy-ok"), "{shell}");
    }
    assert_eq!(Process::of(command(&["completions", "cmd"])).ended().code, 64);
}

#[test]
fn man_pages_are_written_for_each_subcommand() {
    let folder = std::env::temp_dir().join(format!("leasehold-man-{}", std::process::id()));
    let ended = Process::of(command(&["man", folder.to_str().unwrap()])).ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let run = fs::read_to_string(folder.join("leasehold-run.1")).unwrap();
    assert!(run.contains("busy\\-ok") && run.contains("The lease, which is renewed"), "{run}");
    for text in ["LOCK_FENCE", "REDIS_URL", "/etc/leasehold/url"] {
        assert!(run.contains(text), "{text}: {run}");
    }
    assert!(folder.join("leasehold.1").exists() && folder.join("leasehold-unlock.1").exists());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(Process::of(command(&["man", "/dev/null/man1"])).ended().code, 71);
}
