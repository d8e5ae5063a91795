//! Plants one defect after the other in a copy of the sources, and shows that
//! the tests of the engine find each of them.
//!
//! A defect is a piece of text and what stands there instead. When the sources
//! change so that the text is not found exactly once, that is an error: then
//! this list must change with them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
};

/// How many seeds a defect has to be found within.
const SEEDS: u64 = 2_000;

/// A mistake that somebody could make.
struct Defect {
    says: &'static str,
    edits: &'static [Edit],
}

/// One place of a defect.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const DEFECTS: &[Defect] = &[
    Defect {
        says: "a waiter does not listen anew, and sleeps until its timer",
        edits: &[Edit {
            file: "src/engine/wakeups.rs",
            from: "            self.store.listen(name);\n",
            to: "",
        }],
    },
    Defect {
        says: "a lease is counted from the answer, not from the question",
        edits: &[Edit {
            file: "src/engine/acquire.rs",
            from: "self.enter(lease, lease.asked_at, now, 0)",
            to: "self.enter(Lease::new(now, self.claim.ttl), lease.asked_at, now, 0)",
        }],
    },
    Defect {
        says: "a lease has no margin and is renewed from when the answer came",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "state.lease = Lease::new(asked_at, self.claim.ttl);",
            to: "state.lease = Lease::new(now, self.claim.ttl);",
        }],
    },
    Defect {
        says: "a cancelled acquire withdraws nothing",
        edits: &[Edit {
            file: "src/engine/acquire.rs",
            from: "        if asked_at.is_none() && stood.is_none() {\n",
            to: "        if asked_at.is_none() || stood.is_none() || true {\n",
        }],
    },
    Defect {
        says: "a grant that comes after its lease has ended is believed",
        edits: &[Edit {
            file: "src/engine/acquire.rs",
            from: "Ok(Verdict::Granted) if now < lease.ends() => {",
            to: "Ok(Verdict::Granted) if now < lease.ends() || true => {",
        }],
    },
    Defect {
        says: "what was lost is held again when a late renewal succeeds",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "        if self.remaining(now).is_err() {\n            return;\n        }\n        let mut state = self.state();\n",
            to: "        let mut state = self.state();\n        state.over = None;\n",
        }],
    },
    Defect {
        says: "a failed renewal is never tried again",
        edits: &[Edit {
            file: "src/engine/keeper/schedule.rs",
            from: "self.put_off(id, (now + pause).min(hold.ends()));",
            to: "let _ = pause;",
        }],
    },
    Defect {
        says: "the watchdog goes on after the guard has gone",
        edits: &[
            Edit {
                file: "src/engine/held.rs",
                from: "        self.engine.keeper.unwatch(self.hold.id());\n",
                to: "",
            },
            Edit {
                file: "src/engine/keeper/schedule.rs",
                from: "if watched.hold.remaining(now).is_err() {",
                to: "if now >= watched.hold.ends() {",
            },
        ],
    },
    Defect {
        says: "a hold whose release is on its way is still believed",
        edits: &[Edit {
            file: "src/engine/held.rs",
            from: "        let counts = hold.end(LostReason::Released) == LostReason::Released;\n",
            to: "        let counts = true;\n",
        }],
    },
    Defect {
        says: "the store's no is taken for silence",
        edits: &[Edit {
            file: "src/engine/keeper/schedule.rs",
            from: "                hold.end(LostReason::NotOurs);\n                self.unwatch(id);\n",
            to: "                self.put_off(id, hold.ends());\n",
        }],
    },
    Defect {
        says: "nobody is told when a lease has ended",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "            told.notify_waiters();\n",
            to: "            drop(told);\n",
        }],
    },
    Defect {
        says: "a waiter that leaves keeps its turn",
        edits: &[Edit {
            file: "src/engine/turns.rs",
            from: "        if let Some(right) = self.0.take() {\n            right.pass_on();\n        }\n",
            to: "        self.0 = None;\n",
        }],
    },
    Defect {
        says: "a release that was not answered is given up",
        edits: &[Edit {
            file: "src/engine/releases.rs",
            from: "    let given = persist(clock, until, || store.release(claim, way)).await?;\n",
            to: "    let given = super::persist::Given { answer: store.release(claim, way).await?, unsure: false };\n",
        }],
    },
    Defect {
        says: "a release that ran unanswered is taken for a loss",
        edits: &[Edit {
            file: "src/engine/mod.rs",
            from: "unsure: true } => {\n                Ok(GivenBack::Freed(",
            to: "unsure: true } if false => {\n                Ok(GivenBack::Freed(",
        }],
    },
    Defect {
        says: "a wake-up that comes before the waiter sleeps is lost",
        edits: &[Edit {
            file: "src/engine/wakeups.rs",
            from: "        self.woken.notify_one();\n",
            to: "        self.woken.notify_waiters();\n",
        }],
    },
    Defect {
        says: "after a lost connection nobody asks more often",
        edits: &[Edit {
            file: "src/engine/acquire.rs",
            from: "                    false => spread(LONGEST_WAIT_UNHEARD),\n",
            to: "                    false => Duration::from_secs(3_600),\n",
        }],
    },
    Defect {
        says: "a hold that is renewed by re-entry makes the keeper spin",
        edits: &[Edit {
            file: "src/engine/keeper/schedule.rs",
            from: "        self.put_off(id, ends);\n        (!in_flight).then_some(hold)",
            to: "        if in_flight {\n            return None;\n        }\n        self.put_off(id, ends);\n        Some(hold)",
        }],
    },
    Defect {
        says: "an offer is believed from when it came, not from when its place was asked for",
        edits: &[Edit {
            file: "src/engine/acquire.rs",
            from: "let lease = self.standing.lease_of(&offer)?;",
            to: "let lease = self.standing.lease_of(&offer)?;\n        let lease = Lease::new(self.engine.clock.now(), lease.ttl);",
        }],
    },
    Defect {
        says: "an offer to an earlier place is taken for one to the last",
        edits: &[Edit {
            file: "src/engine/standing.rs",
            from: "self.has.filter(|(place, _)| place.number == offer.number)?;",
            to: "self.has.filter(|_| offer.number > 0)?;",
        }],
    },
    Defect {
        says: "an offer that nobody takes is not given back",
        edits: &[Edit {
            file: "src/engine/news.rs",
            from: "self.releases.owe(Debt::of_offer(offer, self.clock.now()));",
            to: "drop(Debt::of_offer(offer, self.clock.now()));",
        }],
    },
    Defect {
        says: "an offer that comes when its owner has entered by asking frees the lock",
        edits: &[Edit {
            file: "src/engine/news.rs",
            from: "if !self.hub.offer(offer) && !self.turns.owns(&offer.name, &offer.owner) {",
            to: "if !self.hub.offer(offer) {",
        }],
    },
    Defect {
        says: "a cancelled acquire keeps its place in the queue",
        edits: &[Edit {
            file: "src/engine/acquire.rs",
            from: "let stood = self.standing.stood();",
            to: "let stood = self.standing.stood().filter(|_| false);",
        }],
    },
    Defect {
        says: "who is woken in vain soon after it came does not learn who is next",
        edits: &[Edit {
            file: "src/engine/standing.rs",
            from: "asked_at < joined_at + FIRST_LOOK",
            to: "asked_at == joined_at",
        }],
    },
    Defect {
        says: "who takes a lock back before others have heard does so for ever",
        edits: &[Edit {
            file: "src/engine/courtesy.rs",
            from: "        self.seen(name).is_some()\n",
            to: "        self.seen(name).is_some() && false\n",
        }],
    },
    Defect {
        says: "a grant whose lease ended on its way to the next hold is believed",
        edits: &[Edit {
            file: "src/engine/turns.rs",
            from: "self.grant.take_if(|grant| now < grant.lease.ends())",
            to: "self.grant.take_if(|grant| now < grant.lease.ends() || true)",
        }],
    },
    Defect {
        says: "a grant that nobody takes over is not given back",
        edits: &[Edit {
            file: "src/engine/turns.rs",
            from: "self.engine.releases.owe(Debt::of_grant(&grant));",
            to: "drop(Debt::of_grant(&grant));",
        }],
    },
    Defect {
        says: "a hold that is due or in doubt is handed over",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "let fresh = now < state.lease.renew_at().min(self.earliest_end(state));\n        let sound = state.over.is_none() && !state.doubted && !state.recounted;",
            to: "let fresh = now < self.earliest_end(state);\n        let sound = state.over.is_none() && !state.recounted;",
        }],
    },
    Defect {
        says: "a hold that was entered again is handed over with the count that it has",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "&& !state.doubted && !state.recounted;",
            to: "&& !state.doubted;",
        }],
    },
    Defect {
        says: "a lock is granted to a waiter that cannot hear of it",
        edits: &[Edit {
            file: "src/store/memory.rs",
            from: "let Some(sleepers) = session.and_then(Listening::sleepers) else { continue };",
            to: "let Some(sleepers) = session.and_then(|it| it.sleepers.clone()) else { continue };",
        }],
    },
    Defect {
        says: "who leaves the queue does not tell who is first now",
        edits: &[Edit {
            file: "src/store/memory.rs",
            from: "            {\n                state.tell_first(&claim.name, now);\n            }\n",
            to: "            {\n            }\n",
        }],
    },
];

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the project");
    let copy = root.join("target/defects");
    copy_sources(root, &copy);
    println!("| # | defect | found by | after |");
    println!("|---|---|---|---|");
    let mut missed = 0;
    for (number, defect) in DEFECTS.iter().enumerate() {
        let found = plant(defect, root, &copy);
        missed += usize::from(found.is_none());
        let nobody = || ("**nobody**".into(), format!("{SEEDS} seeds"));
        let (by, after) = found.unwrap_or_else(nobody);
        println!("| {} | {} | {by} | {after} |", number + 1, defect.says);
    }
    println!("\n{} defects planted, {} found", DEFECTS.len(), DEFECTS.len() - missed);
    ExitCode::from(u8::from(missed > 0))
}

/// Plants `defect`, runs the tests, and takes it out again. Returns who found it
/// and after how much.
fn plant(defect: &Defect, root: &Path, copy: &Path) -> Option<(String, String)> {
    for Edit { file, from, to } in defect.edits {
        let sound = fs::read_to_string(root.join(file)).expect("the file of a defect exists");
        let times = sound.matches(from).count();
        assert_eq!(times, 1, "`{}`: its text stands {times} times in {file}", defect.says);
        write(&copy.join(file), &sound.replacen(from, to, 1));
    }
    let found = by_simulation(copy).or_else(|| by_unit_tests(copy));
    for Edit { file, .. } in defect.edits {
        let sound = fs::read_to_string(root.join(file)).expect("the file of a defect exists");
        write(&copy.join(file), &sound);
    }
    found
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the copy can be written");
}

fn by_simulation(copy: &Path) -> Option<(String, String)> {
    let seeds = SEEDS.to_string();
    let output = test(
        copy,
        &["engine::simulation::run", "--exact", "--nocapture"],
        &[("LEASEHOLD_SEEDS", seeds.as_str()), ("LEASEHOLD_BASE", "0")],
    );
    if output.status.success() {
        return None;
    }
    let said = text(&output);
    let line = said.lines().find(|line| line.starts_with("seed ") && line.contains("broke a rule"));
    let line = line.unwrap_or_else(|| panic!("the tests failed without finding anything:\n{said}"));
    let rule = line.split_once(": ").map_or(line, |(_, rule)| rule);
    let seed: u64 = line.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_default();
    Some((format!("simulation: {}", shortened(rule)), format!("{} seeds", seed + 1)))
}

fn by_unit_tests(copy: &Path) -> Option<(String, String)> {
    let output = test(copy, &["--skip", "simulation"], &[]);
    let said = text(&output);
    let failed =
        said.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    failed.map(|name| (format!("unit test `{name}`"), "1 run".into()))
}

fn test(copy: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(copy)
        .args(["test", "--lib", "--no-default-features", "--"])
        .args(arguments)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .env_remove("LEASEHOLD_SEED")
        .env("RUST_BACKTRACE", "0")
        .envs(settings.iter().copied())
        .output()
        .expect("cargo can be run")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn shortened(rule: &str) -> String {
    rule.chars().take(90).collect()
}

/// Copies what the tests of the library need.
fn copy_sources(root: &Path, copy: &Path) {
    for part in ["Cargo.toml", "Cargo.lock", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        copy_file(&root.join(part), &copy.join(part));
    }
    for part in ["src", "docs", "testkit", "benches", "examples"] {
        copy_folder(&root.join(part), &copy.join(part));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries {
        let path: PathBuf = entry.expect("the sources can be read").path();
        let name = path.file_name().expect("an entry has a name");
        match path.is_dir() {
            true => copy_folder(&path, &to.join(name)),
            false => copy_file(&path, &to.join(name)),
        }
    }
}

fn copy_file(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().expect("a file lies in a folder"))
            .expect("folders can be made");
        fs::copy(from, to).expect("the sources can be copied");
    }
}
