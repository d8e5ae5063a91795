//! The defects, as data.
//!
//! Each is a piece of text and what stands there instead. When the sources change
//! so that the text is not found exactly once, that is an error: then this list
//! must change with them.

use crate::{Defect, Edit, Finder};

/// What the simulation has to find.
pub(crate) const DEFECTS: &[Defect] = &[
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
            from: "        // Before the store can grant it to somebody else.\n        hold.end(LostReason::Released);\n",
            to: "        // Before the store can grant it to somebody else.\n",
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
        says: "a lock is granted to a waiter that cannot hear of it",
        edits: &[Edit {
            file: "src/store/memory.rs",
            from: "let Some(sleepers) = session.and_then(Listening::sleepers) else { continue };",
            to: "let Some(sleepers) = session.and_then(|it| it.sleepers.clone()) else { continue };",
        }],
    },
];

/// What the simulation does not come across, with the test that has to find it.
pub(crate) const ELSEWHERE: &[(Finder, Defect)] = &[
    (
        Finder::Unit(
            "engine::keeper::schedule::tests::a_failed_renewal_is_doubt_and_is_tried_until_the_end",
        ),
        Defect {
            says: "a failed renewal is never tried again",
            edits: &[Edit {
                file: "src/engine/keeper/schedule.rs",
                from: "self.put_off(id, (now + pause).min(hold.ends()));",
                to: "let _ = pause;",
            }],
        },
    ),
    (
        Finder::Unit("engine::news::tests::an_offer_to_one_that_has_gone_is_given_back"),
        Defect {
            says: "an offer that nobody takes is not given back",
            edits: &[Edit {
                file: "src/engine/news.rs",
                from: "self.releases.owe(Debt::of_offer(offer, self.clock.now()));",
                to: "drop(Debt::of_offer(offer, self.clock.now()));",
            }],
        },
    ),
    (
        Finder::Unit("engine::standing::tests::who_asks_again_soon_is_still_new"),
        Defect {
            says: "who is woken in vain soon after it came does not learn who is next",
            edits: &[Edit {
                file: "src/engine/standing.rs",
                from: "asked_at < joined_at + FIRST_LOOK",
                to: "asked_at == joined_at",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::courtesy::tests::a_lock_is_sought_for_a_while_after_a_release_that_found_it_so",
        ),
        Defect {
            says: "who takes a lock back before others have heard does so for ever",
            edits: &[Edit {
                file: "src/engine/courtesy.rs",
                from: "        self.seen(name).is_some()\n",
                to: "        self.seen(name).is_some() && false\n",
            }],
        },
    ),
    (
        Finder::Unit("engine::turns::tests::a_grant_that_has_ended_on_its_way_is_given_back"),
        Defect {
            says: "a grant whose lease ended on its way to the next hold is believed",
            edits: &[Edit {
                file: "src/engine/turns.rs",
                from: "self.grant.take_if(|grant| now < grant.lease.ends())",
                to: "self.grant.take_if(|grant| now < grant.lease.ends() || true)",
            }],
        },
    ),
    (
        Finder::Unit("engine::turns::tests::a_grant_that_has_ended_on_its_way_is_given_back"),
        Defect {
            says: "a grant that nobody takes over is not given back",
            edits: &[Edit {
                file: "src/engine/turns.rs",
                from: "self.engine.releases.owe(Debt::of_grant(&grant));",
                to: "drop(Debt::of_grant(&grant));",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::keeper::schedule::tests::a_grant_is_passed_on_only_as_it_was_granted",
        ),
        Defect {
            says: "a hold that is due or in doubt is handed over",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "let fresh = now < state.lease.renew_at().min(self.earliest_end(state));\n        let sound = state.over.is_none() && !state.doubted && !state.recounted;",
                to: "let fresh = now < self.earliest_end(state);\n        let sound = state.over.is_none() && !state.recounted;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::keeper::schedule::tests::a_grant_is_passed_on_only_as_it_was_granted",
        ),
        Defect {
            says: "a hold that was entered again is handed over with the count that it has",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "&& !state.doubted && !state.recounted;",
                to: "&& !state.doubted;",
            }],
        },
    ),
    (
        Finder::Unit("store::memory::tests::it_conforms"),
        Defect {
            says: "who leaves the queue does not tell who is first now",
            edits: &[Edit {
                file: "src/store/memory.rs",
                from: "            {\n                state.tell_first(&claim.name, now);\n            }\n",
                to: "            {\n            }\n",
            }],
        },
    ),
    (
        Finder::Integration("redis_cost", "a_fixed_lease_is_looked_at_but_never_prolonged"),
        Defect {
            says: "a look at a fixed lease ends it",
            edits: &[Edit {
                file: "src/store/redis/lua/lock/renew.lua",
                from: "if held == 1 and ttl ~= '0' then",
                to: "if held == 1 then",
            }],
        },
    ),
];
