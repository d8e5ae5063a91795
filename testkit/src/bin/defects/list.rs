//! The defects, as data.
//!
//! Each defect replaces one or several texts in the sources. Each text must occur exactly once in
//! its file. If a change to the sources changes such a text, this list must change, too.

use crate::{Defect, Edit, Finder};

/// Defects that the simulation `run_served` finds.
pub(crate) const DEFECTS: &[Defect] = &[
    Defect {
        says: "a hold after a hand-off has the token of the hold before",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "self.grant.token.and_then(|token| token.checked_add(1));",
            to: "self.grant.token;",
        }],
    },
    Defect {
        says: "hand-offs continue when the drawn tokens are used up",
        edits: &[Edit {
            file: "src/engine/acquire/attempt.rs",
            from: "Some(more) => LocalBudget { turns: budget.turns.min(more), ..budget },",
            to: "Some(_) => budget,",
        }],
    },
    Defect {
        says: "a waiter does not subscribe, and sleeps until its timer",
        edits: &[Edit {
            file: "src/engine/contention/mod.rs",
            from: "            self.core.store.listen(object);\n",
            to: "",
        }],
    },
    Defect {
        says: "a lease is counted from the reply, not from the request",
        edits: &[Edit {
            file: "src/engine/acquire/attempt.rs",
            from: "return Asked::Granted(Granted { lease, token, element, now });",
            to: "return Asked::Granted(Granted { lease: Lease::new(now, self.claim.ttl), token, element, now });",
        }],
    },
    Defect {
        says: "a lease has no margin for clocks that are slow",
        edits: &[Edit {
            file: "src/domain/lease.rs",
            from: "self.asked_at + self.ttl - margin(self.ttl)",
            to: "self.asked_at + self.ttl - margin(Duration::ZERO)",
        }],
    },
    Defect {
        says: "a lease does not count the time in which the machine is suspended",
        edits: &[Edit {
            file: "src/engine/clock.rs",
            from: "slept => now + Duration::from_nanos(slept.unsigned_abs()),",
            to: "_ => now,",
        }],
    },
    Defect {
        says: "a cancelled acquisition is not withdrawn",
        edits: &[Edit {
            file: "src/engine/acquire/attempt.rs",
            from: "if !held || asked_at.is_none() && !queued {",
            to: "if held {",
        }],
    },
    Defect {
        says: "a cancelled acquisition keeps its queue entry",
        edits: &[Edit {
            file: "src/engine/acquire/attempt.rs",
            from: "        let queued = self.waiting.may_have_place();\n",
            to: "        let queued = false;\n",
        }],
    },
    Defect {
        says: "a grant that arrives after the end of its lease counts",
        edits: &[Edit {
            file: "src/engine/acquire/attempt.rs",
            from: "Ok(Verdict::Granted { .. }) if now >= lease.ends() =>",
            to: "Ok(Verdict::Granted { .. }) if now >= lease.ends() && self.slot.is_none() =>",
        }],
    },
    Defect {
        says: "a message grants a lock without a request",
        edits: &[Edit {
            file: "src/engine/acquire/attempt.rs",
            from: "            match self.ask().await? {\n",
            to: "            let asked = match self.notified {\n                false => self.ask().await?,\n                true => {\n                    let now = engine.core.clock.now();\n                    let lease = Lease::new(now, self.claim.ttl);\n                    Asked::Granted(Granted { lease, token: None, element: None, now })\n                }\n            };\n            match asked {\n",
        }],
    },
    Defect {
        says: "a hold counts as held while its release is in flight",
        edits: &[Edit {
            file: "src/engine/release/mod.rs",
            from: "let ended = hold.end(LostReason::Released, now);",
            to: "let ended = Ok::<(), LostReason>(());",
        }],
    },
    Defect {
        says: "a task that awaits a loss is not notified of the end of a lease",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "            watchers.notify_waiters();\n",
            to: "            drop(watchers);\n",
        }],
    },
    Defect {
        says: "a waiter that gives up keeps the request slot",
        edits: &[Edit {
            file: "src/engine/contention/request_slot.rs",
            from: "        if self.spent {\n",
            to: "        if self.spent || self.handoff.is_none() {\n",
        }],
    },
    Defect {
        says: "the client never unsubscribes from a name",
        edits: &[Edit {
            file: "src/engine/contention/mod.rs",
            from: "            self.core.store.unlisten(object);\n",
            to: "",
        }],
    },
    Defect {
        says: "the client unsubscribes while a task waits",
        edits: &[Edit {
            file: "src/engine/contention/mod.rs",
            from: "let ended = entry.is_past(now, idle_lifetime(object))",
            to: "let ended = again.is_none() || entry.is_past(now, idle_lifetime(object))",
        }],
    },
    Defect {
        says: "hand-offs have no limit while tasks of this process wait",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "self.grant.budget.turns > 0 && self.grant.budget.until > now.into()",
            to: "self.grant.budget.turns > 1 || self.grant.budget.until > now.into()",
        }],
    },
    Defect {
        says: "a woken task that does not run keeps the request slot while others wait",
        edits: &[Edit {
            file: "src/engine/contention/entry.rs",
            from: "if !others && called.handoff.is_none() {",
            to: "if called.handoff.is_none() {",
        }],
    },
    Defect {
        says: "no check is planned for a woken task when another one starts to wait",
        edits: &[Edit {
            file: "src/engine/contention/request_slot.rs",
            from: "            entries.plan_check(object, &self.core);\n        } else if",
            to: "        } else if",
        }],
    },
];

/// Other defects, each with the test or the simulation that finds it.
pub(crate) const ELSEWHERE: &[(Finder, Defect)] = &[
    (
        Finder::Simulation("run_quorum"),
        Defect {
            says: "half of the servers of a quorum count as a majority",
            edits: &[Edit {
                file: "src/quorum/vote.rs",
                from: "    members / 2 + 1\n",
                to: "    members / 2\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_quorum"),
        Defect {
            says: "a server of a quorum that lost its data counts at once",
            edits: &[Edit {
                file: "src/quorum/vote.rs",
                from: "self.data.age < self.lease",
                to: "self.data.age.is_zero()",
            }],
        },
    ),
    (
        Finder::Simulation("run_quorum"),
        Defect {
            says: "the grants of a minority are never released",
            edits: &[Edit {
                file: "src/quorum/vote.rs",
                from: "                failure.divided = true;\n",
                to: "                failure.divided = true;\n                let reply = std::mem::ManuallyDrop::new(reply);\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_quorum"),
        Defect {
            says: "the release of a quorum hold that was lost counts as a success",
            edits: &[Edit {
                file: "src/quorum/hold.rs",
                from: "            _ => not_held(reasons.first().copied().unwrap_or(LostReason::Expired)),\n",
                to: "            _ => Ok(Release::Released),\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "quorum::vote::tests::server_that_lost_its_data_since_its_vote_is_not_trusted",
        ),
        Defect {
            says: "a client that was paused after its votes trusts the new servers of a quorum",
            edits: &[Edit {
                file: "src/store/redis/kinds/quorum/data_age.lua",
                from: "local trusted = since == tonumber(ARGV[1])",
                to: "local trusted = ARGV[1] ~= '-1'",
            }],
        },
    ),
    (
        Finder::Unit("quorum::hold::tests::restorer_ends_with_its_hold"),
        Defect {
            says: "the restorer of a quorum hold does not end with the hold",
            edits: &[Edit {
                file: "src/quorum/hold.rs",
                from: "_ = over.wait_for(Option::is_some) => {}\n                _ = join_all",
                to: "_ = over.wait_for(|_| false) => {}\n                _ = join_all",
            }],
        },
    ),
    (
        Finder::Unit(
            "quorum::vote::tests::vote_does_not_count_if_the_server_loses_its_data_meanwhile",
        ),
        Defect {
            says: "the age of the data of a server is read before the grant",
            edits: &[
                Edit {
                    file: "src/quorum/vote.rs",
                    from: "    let grant = match granted {\n",
                    to: "    let data = data_age(lock, None).await?;\n    let grant = match granted {\n",
                },
                Edit {
                    file: "src/quorum/vote.rs",
                    from: "data: data_age(lock, None).await?,",
                    to: "data,",
                },
            ],
        },
    ),
    (
        Finder::Unit("quorum::hold::tests::late_grant_does_not_continue_an_ended_hold"),
        Defect {
            says: "a grant continues a quorum hold that had lost its majority before",
            edits: &[Edit {
                file: "src/quorum/hold.rs",
                from: "grant.is_some() && self.time_left_by(&grants).is_ok()",
                to: "grant.is_some() && self.over.borrow().is_none()",
            }],
        },
    ),
    (
        Finder::Unit("quorum::hold::tests::remaining_time_is_that_of_a_majority"),
        Defect {
            says: "the longest grant of a quorum counts, not that of the majority",
            edits: &[Edit {
                file: "src/quorum/hold.rs",
                from: ".map(|at| left[at])",
                to: ".map(|_| left[left.len() - 1])",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::acknowledged::tests::unacknowledged_grant_is_released_and_leaves_no_state",
        ),
        Defect {
            says: "a grant with too few replicas is returned",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "Ok(Ok(got)) if got < wanted =>",
                to: "Ok(Ok(got)) if got < wanted && wanted == 0 =>",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::acknowledged::tests::unacknowledged_grant_is_released_and_leaves_no_state",
        ),
        Defect {
            says: "a grant with too few replicas is not released",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "        take_back(held, until).await;\n",
                to: "        std::mem::forget(held);\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::acknowledged::tests::handed_off_grant_keeps_its_acknowledgements",
        ),
        Defect {
            says: "replicas are asked again after a hand-off",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "Grant { leased_at, asked_at, replication, budget,",
                to: "Grant { leased_at, asked_at, replication: ReplicationStatus::counted(replication.after(0).min(0), 0), budget,",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::acknowledged::tests::handed_off_grant_keeps_its_acknowledgements",
        ),
        Defect {
            says: "the replicas of one caller are enough for a caller that requires more",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "if hold.replicas(moves) >= replicas.least {",
                to: "if hold.replicas(moves) > 0 {",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::acknowledged::tests::handed_off_grant_needs_acknowledgements_of_the_new_server",
        ),
        Defect {
            says: "replicas of the old server count at the new one",
            edits: &[Edit {
                file: "src/engine/grant.rs",
                from: "if self.moves == moves { self.replicas } else { 0 }",
                to: "if self.moves <= moves { self.replicas } else { 0 }",
            }],
        },
    ),
    (
        Finder::Link(
            "topology::snapshot::tests::older_topology_replaces_an_unconfirmed_newer_topology",
        ),
        Defect {
            says: "the topology of a node that was cut off replaces a newer one",
            edits: &[Edit {
                file: "link/src/topology/snapshot.rs",
                from: "is_some_and(|at| now < at + REMEMBERED)",
                to: "is_some_and(|at| now < at)",
            }],
        },
    ),
    (
        Finder::Link(
            "topology::snapshot::tests::moved_reply_overrides_a_topology_of_the_same_epoch_for_1_s",
        ),
        Defect {
            says: "a node that does not know of a moved slot replaces the topology",
            edits: &[Edit {
                file: "link/src/topology/snapshot.rs",
                from: "Ordering::Equal => self.map != *map && propagates(),",
                to: "Ordering::Equal => self.map == *map && propagates(),",
            }],
        },
    ),
    (
        Finder::Link(
            "replica_ack::round::tests::calls_share_one_wait_command_and_get_separate_counts",
        ),
        Defect {
            says: "the grant is not written again before WAIT",
            edits: &[Edit {
                file: "link/src/replica_ack/round.rs",
                from: "requester.asks(&requester.evidence.touch)",
                to: "requester.asks(&requester.evidence.look)",
            }],
        },
    ),
    (
        Finder::Link(
            "replica_ack::round::tests::calls_share_one_wait_command_and_get_separate_counts",
        ),
        Defect {
            says: "one replica is enough for every call of a round",
            edits: &[Edit {
                file: "link/src/replica_ack/round.rs",
                from: "if *count < requester.least &&",
                to: "if *count < 1 &&",
            }],
        },
    ),
    (
        Finder::Link("replica_ack::round::tests::grant_that_the_server_lost_is_not_acknowledged"),
        Defect {
            says: "replicas count at a server that does not have the grant",
            edits: &[Edit {
                file: "link/src/replica_ack/round.rs",
                from: "        Value::Int(0) | Value::Nil => Ok(false),\n",
                to: "        Value::Nil => Ok(false),\n",
            }],
        },
    ),
    (
        Finder::Link("replica_ack::tests::call_during_a_wait_command_joins_the_next_wait_command"),
        Defect {
            says: "a call that comes during a WAIT gets its result",
            edits: &[Edit {
                file: "link/src/replica_ack/mod.rs",
                from: "                Ok(replies) => round.answered(replies, Instant::now()),\n",
                to: "                Ok(replies) => {\n                    round.add(std::mem::take(&mut *self.requesters.lock()));\n                    round.answered(replies, Instant::now());\n                }\n",
            }],
        },
    ),
    (
        Finder::Link("replica_ack::round::tests::grant_lost_during_the_round_is_not_acknowledged"),
        Defect {
            says: "a grant that is lost during WAIT counts as acknowledged",
            edits: &[Edit {
                file: "link/src/replica_ack/round.rs",
                from: "Ok(was_there && found?)",
                to: "found.map(|_| was_there)",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a guarded write does not check the owner",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/write.lua",
                from: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then",
                to: "if redis.call('HLEN', KEYS[1]) == 0 then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a guarded write is made in part",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/write.lua",
                from: "if kind ~= 'hash' and kind ~= 'none' then",
                to: "if i == 2 and kind ~= 'hash' and kind ~= 'none' then",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::lock::guarded::tests::guarded_script_runs_only_for_the_holder_of_the_lock",
        ),
        Defect {
            says: "a guarded script does not check the owner",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/eval.lua",
                from: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then",
                to: "if redis.call('HLEN', KEYS[1]) == 0 then",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::held::tests::guarded_write_reports_the_loss_of_its_hold_to_all_guards",
        ),
        Defect {
            says: "a rejected guarded write does not end the hold",
            edits: &[Edit {
                file: "src/engine/held.rs",
                from: "            engine.contention.disown(hold);\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::held::tests::previous_hold_of_an_owner_cannot_write_after_a_hand_off",
        ),
        Defect {
            says: "a hold that is over sends a guarded write",
            edits: &[
                Edit {
                    file: "src/engine/hold.rs",
                    from: "        self.remaining(now)?;\n        let mut state = self.state.lock();\n        // The grant",
                    to: "        let _ = now;\n        let mut state = self.state.lock();\n        // The grant",
                },
                Edit {
                    file: "src/engine/hold.rs",
                    from: "        state.over.map_or(Ok(()), Err)?;\n",
                    to: "",
                },
            ],
        },
    ),
    (
        Finder::Unit("engine::held::tests::rejected_guarded_write_keeps_the_hold"),
        Defect {
            says: "a guarded write with a reply still counts as in flight",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "        self.state.lock().writes -= 1;\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::tests::silent_subscription_connection_is_replaced_in_a_busy_client",
        ),
        Defect {
            says: "a notification of another kind counts as a reply of the connection",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "() = self.changed.notified() => {}",
                to: "() = self.changed.notified() => sent_at = Instant::now(),",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::lingering::unused_names_are_removed_while_a_lock_is_handed_off",
        ),
        Defect {
            says: "a name in a hand-off hides idle names from the check",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: ".take(MOST_EARLY).filter(lingers)",
                to: ".take(MOST_EARLY)",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::late_rejection_removes_only_the_permission_of_its_request",
        ),
        Defect {
            says: "a denied channel of Leasehold counts as a denial of all channels",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "false => Denied::OwnChannels,",
                to: "false => Denied::Releases,",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::renewal_sent_before_a_hand_off_extends_the_next_hold",
        ),
        Defect {
            says: "a renewal of the previous hold does not count for the next one",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "            state.asked_at = state.asked_at.max(asked_at.into());\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::held::tests::release_of_a_lost_hold_reports_the_loss_to_all_its_guards",
        ),
        Defect {
            says: "a rejected hold count counts as a success",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "            contention.disown(hold);\n            return Ok(outcome);\n",
                to: "            return Ok(outcome);\n",
            }],
        },
    ),
    (
        Finder::Unit("engine::contention::tests::waiter_gets_no_slot_and_no_grant_after_shutdown"),
        Defect {
            says: "a task may wait after the shutdown of its client",
            edits: &[Edit {
                file: "src/engine/contention/request_slot.rs",
                from: "        if self.core.open.is_closed() {",
                to: "        if self.core.used.is_closed() {",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::retried_request_that_is_executed_late_is_withdrawn",
        ),
        Defect {
            says: "a hand-off forgets that an earlier request got no reply",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "budget, token, contended: true, ..",
                to: "budget, token, contended: true, unsure: false, ..",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::repeated_messages_about_a_hold_cause_few_checks",
        ),
        Defect {
            says: "each published message causes a renewal",
            edits: &[Edit {
                file: "src/engine/watchdog/schedule.rs",
                from: "now.max(Instant::from(watched.asked_at) + ECHO)",
                to: "now.max(Instant::from(watched.asked_at))",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "the same queue entry holds back in two yield windows",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/hand_over.lua",
                from: "    put_back('0')\n",
                to: "    put_back(came)\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::denied_unsubscribe_is_not_repeated",
        ),
        Defect {
            says: "a denied UNSUBSCRIBE is repeated for ever",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "                self.outdated.retain(|it| !asked.channels.contains(it));\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::profiles::permit_offered_to_a_leaving_waiter_is_granted_only_once",
        ),
        Defect {
            says: "an offered grant passes to a next task with another lease profile",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "handoff = handoff.filter(|handoff| next.profile == handoff.profile());",
                to: "handoff = handoff.filter(|_| true);",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::profiles::request_for_two_permits_is_not_granted_if_only_one_is_free",
        ),
        Defect {
            says: "a grant passes to a woken task with another lease profile",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "called.handoff.is_none() && called.profile == profile",
                to: "called.handoff.is_none()",
            }],
        },
    ),
    (
        Finder::Unit("engine::hold::tests::reader_does_not_join_a_hold_that_is_due_for_renewal"),
        Defect {
            says: "a hold that is due for renewal is shared",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "        let fresh = now < self.lease(&state).renew_at();\n        let few",
                to: "        let fresh = now >= state.leased_at;\n        let few",
            }],
        },
    ),
    (
        Finder::Unit("engine::hold::tests::reader_does_not_join_a_hold_in_doubt"),
        Defect {
            says: "a hold in doubt is shared",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "state.over.is_none() && !state.doubted && self.must_end_at.is_none();",
                to: "state.over.is_none() && self.must_end_at.is_none();",
            }],
        },
    ),
    (
        Finder::Unit("engine::watchdog::tests::expired_write_hold_with_a_read_hold_is_released"),
        Defect {
            says: "the release of a writer that also reads is given up with its own lease",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "if read_under_write { ends.max(now + LATEST_EXECUTION) } else { ends }",
                to: "if read_under_write { ends } else { ends.min(now + LATEST_EXECUTION) }",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::read_hold_of_a_writer_is_not_shared_during_its_write_hold",
        ),
        Defect {
            says: "a hold is shared while a task waits for the other side",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "self.is_unopposed(object) && hold.profile() == profile",
                to: "hold.profile() == profile || self.is_unopposed(object)",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::readers_with_short_holds_share_one_request",
        ),
        Defect {
            says: "the last reader releases without letting other tasks run",
            edits: &[Edit {
                file: "src/engine/held.rs",
                from: "            pause().await;\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::dropped_release_of_the_last_reader_completes",
        ),
        Defect {
            says: "a release that is dropped while others may join is lost",
            edits: &[Edit {
                file: "src/engine/held.rs",
                from: "            pause().await;\n",
                to: "            self.released = true;\n            pause().await;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::repeated_shared_reads_let_other_tasks_run",
        ),
        Defect {
            says: "a task that reads repeatedly does not let other tasks run",
            edits: &[Edit {
                file: "src/engine/acquire/mod.rs",
                from: "coop::consume_budget().await,",
                to: "{}",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::release_reports_that_a_shutdown_ended_the_read_hold",
        ),
        Defect {
            says: "a release does not read the time again after others may have joined",
            edits: &[Edit {
                file: "src/engine/held.rs",
                from: "            (now, believed) = look();\n",
                to: "            now = look().0;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::release_wakes_its_task_while_the_only_worker_is_blocked",
        ),
        Defect {
            says: "a task that lets others join relies on its runtime to wake it",
            edits: &[Edit {
                file: "src/engine/held.rs",
                from: "            pause().await;\n",
                to: "            tokio::task::yield_now().await;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::reader_waits_for_the_release_of_a_shared_hold_and_pauses",
        ),
        Defect {
            says: "holds of readers follow each other without a pause",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "            sleep(SHARING_PAUSE).await;\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::reader_waits_for_the_release_of_a_shared_hold_and_pauses",
        ),
        Defect {
            says: "a new reader does not wait for the end of the shared hold",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "self.notified_of(|state| state.is_released_in_store)",
                to: "std::future::ready(())",
            }],
        },
    ),
    (
        Finder::Unit("engine::hold::tests::pauses_of_a_client_add_up_to_2_percent_of_short_holds"),
        Defect {
            says: "a client that acquires repeatedly leaves no time for polling waiters",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "            held if in_its_turn() => held * HOLD_BACK_ONE_IN / 50,\n",
                to: "            held if in_its_turn() => held / 1_000,\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::reader_sends_its_request_after_a_dropped_guard_is_released",
        ),
        Defect {
            says: "a reader does not wait for the release of a dropped guard",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "now), now));\n        if !hold.ends_with_release_reply() {\n            self.contention.left(hold);",
                to: "now), now));\n        {\n            self.contention.left(hold);",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::unpolled_pausing_task_delays_the_next_task_only_briefly",
        ),
        Defect {
            says: "a reader that pauses counts as a task that waits for a reply",
            edits: &[Edit {
                file: "src/engine/acquire/mod.rs",
                from: "        slot.note_sleep(self.core.clock.now() + longest);\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("engine::contention::tests::sharing::shared_hold_is_limited_by_local_handoff"),
        Defect {
            says: "a shared hold has no limit of readers",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "state.more < self.grant.budget.turns;",
                to: "self.shares() <= self.grant.budget.turns;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::write_hold_with_a_read_hold_is_not_handed_off",
        ),
        Defect {
            says: "a writer that also reads is handed off",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "self.read_under_write.store(true, Ordering::Release);\n        self.forbid_handoff();",
                to: "self.read_under_write.store(true, Ordering::Release);",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::read_hold_of_a_writer_is_shared_after_its_write_hold_ended",
        ),
        Defect {
            says: "a read hold is shared while a guarded write of its writer may be in flight",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "self.object().traits().is_shared() || self.is_read_under_write()",
                to: "self.object().traits().is_shared()",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "readers do not wait for waiting writers",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/read.lua",
                from: "        if ends and now < -ends then",
                to: "        if false then",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::lock_is_free_when_both_read_holds_of_a_former_writer_end",
        ),
        Defect {
            says: "the write hold and the read hold of a writer have one owner",
            edits: &[Edit {
                file: "src/engine/acquire/attempt.rs",
                from: "owner: request.object.task_owner().unwrap_or_else(",
                to: "owner: request.writer.clone().unwrap_or_else(",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a read hold for a writer is granted without its write hold",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/read.lua",
                from: "is_writer = mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1",
                to: "is_writer = true",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "the renewal of a writer shortens its longer read lease",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/prolong.lua",
                from: "if left < ttl or left > ttl and redis.call('HLEN', lock) == 2 then",
                to: "if left then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a renewal never shortens the lease of an only reader",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/renew.lua",
                from: "if left < 0 or left > 0 and redis.call('HLEN', lock) == 2 then",
                to: "if left < 0 then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a writer that keeps reading keeps the TTL of its write hold",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/unlock.lua",
                from: "if left then\n    -- With 0",
                to: "if left and left < 0 then\n    -- With 0",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a reader waits for writers that came after it",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/read.lua",
                from: "now - ARGV[4], 'WITHSCORES'",
                to: "now, 'WITHSCORES'",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a reader is renewed after the end of its lease",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/renew.lua",
                from: "        reads = redis.call('PEXPIRE', lease, ttl)\n",
                to: "        redis.call('SET', lease, '1', 'PX', ttl)\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a dead reader blocks writers",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/leave.lua",
                from: "    if left == 0 then\n        return free()\n    elseif left then",
                to: "    if left and left > 0 then",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::reentry_during_a_renewal_causes_no_loop_of_renewals",
        ),
        Defect {
            says: "a reentry during a renewal makes the watchdog loop",
            edits: &[Edit {
                file: "src/engine/watchdog/schedule.rs",
                from: "        self.put_off(id, ends);\n        (!in_flight).then_some(hold)",
                to: "        if in_flight {\n            return None;\n        }\n        self.put_off(id, ends);\n        Some(hold)",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::failed_renewal_is_retried_until_the_lease_end",
        ),
        Defect {
            says: "a failed renewal is not retried",
            edits: &[Edit {
                file: "src/engine/watchdog/schedule.rs",
                from: "let due = now + pause.max(SHORTEST_RETRY);",
                to: "let due = hold.ends() + pause;",
            }],
        },
    ),
    (
        Finder::Unit("engine::contention::tests::grant_that_expires_during_a_hand_off_is_released"),
        Defect {
            says: "a grant whose lease ended in a hand-off counts",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "(now < self.lease(&state).ends()).then_some(next)",
                to: "(now < self.lease(&state).ends() + self.grant.claim.ttl).then_some(next)",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::ended_hold_stays_ended_after_late_replies",
        ),
        Defect {
            says: "a late renewal makes a lost hold held again",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "        if self.remaining(now).is_err() {\n            return;\n        }\n        let mut state = self.state.lock();\n        state.doubted = false;",
                to: "        let _ = now;\n        let mut state = self.state.lock();\n        state.over = None;\n        state.doubted = false;",
            }],
        },
    ),
    (
        Finder::Unit("engine::watchdog::schedule::tests::only_an_unchanged_grant_is_handed_off"),
        Defect {
            says: "a hold that is due or in doubt is handed off",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "let fresh = now < self.lease(state).renew_at() && !must_end;\n        let sound = state.over.is_none() && !state.doubted && state.more == 0;",
                to: "let fresh = now < self.lease(state).ends() && !must_end;\n        let sound = state.over.is_none() && state.more == 0;",
            }],
        },
    ),
    (
        Finder::Unit("engine::watchdog::schedule::tests::only_an_unchanged_grant_is_handed_off"),
        Defect {
            says: "a re-entered hold is handed off with its count",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "&& !state.doubted && state.more == 0;",
                to: "&& !state.doubted;",
            }],
        },
    ),
    (
        Finder::Unit("engine::contention::tests::grant_lost_during_a_hand_off_is_used_by_no_task"),
        Defect {
            says: "a loss that is reported during a hand-off is ignored",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "called.handoff.iter_mut().for_each(|handoff| handoff.disown(id));",
                to: "let _ = called;",
            }],
        },
    ),
    (
        Finder::Unit("engine::contention::tests::hand_off_passes_the_grant_and_the_request_slot"),
        Defect {
            says: "the end of a hold takes the request slot from the next hold",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "                // Another hold has this grant now.\n                return;\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::unpolled_waiter_of_a_removed_name_rejoins_the_line",
        ),
        Defect {
            says: "tickets start again at 0 when a name is forgotten",
            edits: &[Edit {
                file: "src/engine/contention/request_slot.rs",
                from: "        let fresh = entries.last_ticket;\n        let Entries { of, left_alone, .. } = &mut *entries;\n        let entry = of.entry(object.clone()).or_default();\n",
                to: "        let Entries { of, left_alone, .. } = &mut *entries;\n        let entry = of.entry(object.clone()).or_default();\n        let fresh = 1 + entry.wait_state().waiting.len() as u64;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::task_that_reacquires_waits_for_requests_of_other_clients",
        ),
        Defect {
            says: "a returning task does not let other clients acquire first",
            edits: &[Edit {
                file: "src/engine/acquire/mod.rs",
                from: "let others_first = slot.head_start.unwrap_or_default();",
                to: "let others_first = Duration::ZERO;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::release_that_finds_remote_waiters_marks_the_name_contended",
        ),
        Defect {
            says: "a release does not note the waiters that it found",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "                    self.contention.note(hold.object(), others);\n",
                to: "                    let _ = others;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::inbox::tests::queued_waiter_ignores_a_release_that_woke_the_queue_head",
        ),
        Defect {
            says: "a new owner of the request slot counts as queued like the one before",
            edits: &[Edit {
                file: "src/engine/contention/inbox.rs",
                from: "(notices.queued, notices.ask_at) = (false, None);",
                to: "notices.ask_at = None;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::waiting::tests::queued_waiter_sends_a_request_soon_and_then_rarely",
        ),
        Defect {
            says: "a newly queued waiter does not repeat its request soon",
            edits: &[Edit {
                file: "src/engine/acquire/waiting.rs",
                from: "(SubscriptionLevel::Turns, Some(look)) if now < look => look - now,",
                to: "(SubscriptionLevel::Turns, Some(look)) if now > look => now - look,",
            }],
        },
    ),
    (
        Finder::Unit("engine::stress::shut_down_client_has_no_holds"),
        Defect {
            says: "a grant that arrives during a shutdown is not revoked",
            edits: &[Edit {
                file: "src/engine/acquire/mod.rs",
                from: "        if self.core.open.is_closed() {\n            self.take_back(&hold);",
                to: "        if self.core.open.is_closed() && self.contention.is_contended(hold.object()) {\n            self.take_back(&hold);",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::subscriptions_are_requested_again_after_a_loss",
        ),
        Defect {
            says: "a subscription that was requested on a lost connection counts as requested",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.channels.clear();\n",
                to: "        self.channels.retain(|_, it| it.state == State::Asked);\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::subscriptions_finally_match_the_requested_names_for_any_seed",
        ),
        Defect {
            says: "a temporarily rejected subscription is never requested again",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "(Rejection::Passing, _) => {}",
                to: "(Rejection::Passing, _) => self.outdated.clear(),",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::subscriptions_finally_match_the_requested_names_for_any_seed",
        ),
        Defect {
            says: "confirmed subscriptions are not requested on the next connection",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.channels.clear();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::denied_subscription_removes_one_permission_for_a_while",
        ),
        Defect {
            says: "a denied permission is never tried again",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.refusals.forget(now).iter().for_each(|object| self.want(object));\n",
                to: "        let _ = now;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::names_share_a_channel_until_the_last_name_unsubscribes",
        ),
        Defect {
            says: "an unsubscription removes a channel that another name uses",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "                entry.objects.remove(object);\n                self.outdated",
                to: "                entry.objects.clear();\n                self.outdated",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::table::tests::subscriptions_finally_match_the_requested_names_for_any_seed",
        ),
        Defect {
            says: "a subscription that is confirmed after it was given up stays",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.outdated.insert(channel.to_owned());\n",
                to: "        if state == State::Off {\n            self.outdated.insert(channel.to_owned());\n        }\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a check of a fixed lease changes the lease",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/renew.lua",
                from: "if held == 1 and ttl ~= '0' then",
                to: "if held == 1 then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::denied_reservation_message_wakes_all_waiters"),
        Defect {
            says: "a denied notification of the next waiter is an error",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/hand_over.lua",
                from: "    -- All queued waiters listen to this channel, too.\n",
                to: "    if not notify(place, 0) then\n        error('refused')\n    end\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::denied_reservation_message_wakes_all_waiters"),
        Defect {
            says: "after a denied notification of the next waiter, no waiter is notified",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/hand_over.lua",
                from: "local answer = notify(place, 0) and 0 or announce('0')",
                to: "local answer = notify(place, 0) and 0 or 0",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::unsubscribed_waiter_leaves_the_queue_when_it_gives_up"),
        Defect {
            says: "an unsubscribed waiter stays in the queue when it gives up",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/mod.rs",
                from: "                Box::pin(hand_over(store, claim)).await\n",
                to: "                release_openly(store, claim).await\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::client_waits_two_yield_windows_to_let_the_queue_head_acquire",
        ),
        Defect {
            says: "a returning waiter sends its request together with the queue head after a yield window",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "wait_state.yield_ends = Some(now + 2 * window),",
                to: "wait_state.yield_ends = Some(now + window),",
            }],
        },
    ),
    (
        Finder::Unit("engine::events::tests::pause_of_a_waiter_ends_when_the_store_recovers"),
        Defect {
            says: "waiters do not send requests when the store is reachable again",
            edits: &[Edit {
                file: "src/engine/events.rs",
                from: "                self.core.store_recovered.notify_waiters();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::readonly_error_does_not_count_as_a_missing_permission"),
        Defect {
            says: "a temporary READONLY counts as a denied queue",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/acquire.lua",
                from: "{'READONLY', 'NOREPLICAS',",
                to: "{'WRITEONLY', 'NOREPLICAS',",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::missing_permission_is_forgotten_on_the_next_connection"),
        Defect {
            says: "a missing permission is not tried again on the next connection",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.refusals.clear();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "permits: a script grants more than there are",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/acquire.lua",
                from: "if missing > free then",
                to: "if missing > free + 1 then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "permits: a repeated acquisition counts twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/acquire.lua",
                from: "    if not redis.call('ZSCORE', KEYS[2], ARGV[i]) then",
                to: "    if true then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "permits: a script renews what has expired",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/renew.lua",
                from: "        if not ends or tonumber(ends) <= now then",
                to: "        if not ends then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "permits: a repeated change happens twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/change.lua",
                from: "if before then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "permits: a release does not announce free permits",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/release.lua",
                from: "if announce(ARGV[1], free) then",
                to: "if true then",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::waiting::tests::waiter_reports_its_waiting_time_after_a_long_wait",
        ),
        Defect {
            says: "a waiter for many permits is overtaken for ever",
            edits: &[Edit {
                file: "src/engine/acquire/waiting.rs",
                from: "self.is_long |= waited >= LONG_WAIT_AFTER;",
                to: "self.is_long |= waited >= LONG_WAIT_AFTER * 1_000;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::offered_grant_goes_to_the_next_task_when_the_first_leaves",
        ),
        Defect {
            says: "a hold of permits keeps the request slot",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "        if !traits.is_exclusive() {\n",
                to: "        if traits.is_shared() {\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "an unsupported request returns the error of a server",
            edits: &[Edit {
                file: "src/store/redis/kinds/mod.rs",
                from: "Failure::Unsupported(\n        \"this primitive",
                to: "Failure::refused(\n        \"ERR\", \"this primitive",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::replies::latch_reply_wakes_only_waiters_that_preceded_its_request",
        ),
        Defect {
            says: "the reply for a latch counts for tasks that came after its request",
            edits: &[Edit {
                file: "src/engine/contention/request_slot.rs",
                from: "self.asked_after = self.contention.entries.lock().last_ticket;",
                to: "self.asked_after = self.contention.entries.lock().last_ticket + 1_000_000;",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a release adds permits that were never acquired",
            edits: &[Edit {
                file: "src/store/redis/kinds/semaphore/release.lua",
                from: "local back = permits and ARGV[4] ~= 'forget'",
                to: "permits = permits or '1'\nlocal back = ARGV[4] ~= 'forget'",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated count counts twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/receipt.lua",
                from: "    return tonumber(redis.call('GET', receipt) or nil)",
                to: "    return nil",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::tests::waiter_for_too_many_permits_blocks_others_half_the_time",
        ),
        Defect {
            says: "permits are left for ever to a waiter for permits of dead clients",
            edits: &[
                Edit {
                    file: "src/store/redis/kinds/semaphore/acquire.lua",
                    from: "math.min(tonumber(rest or nil) or 0, began + turn) - now",
                    to: "(tonumber(rest or nil) or 0) - now",
                },
                Edit {
                    file: "src/store/redis/kinds/semaphore/acquire.lua",
                    from: "local may_be_longest_waiter = waits_since and now < began + turn",
                    to: "local may_be_longest_waiter = waits_since",
                },
            ],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "the end of a preferred waiter is not announced",
            edits: &[Edit {
                file: "src/store/redis/kinds/semaphore/acquire.lua",
                from: "        redis.pcall('PUBLISH', ARGV[6], whole(free))\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::denied_change_leaves_the_number_of_permits_unchanged"),
        Defect {
            says: "a change happens before its idempotency key is rejected",
            edits: &[Edit {
                file: "src/store/redis/kinds/receipt.lua",
                from: "    redis.call('SET', receipt, '', 'PX', rest)\n",
                to: "    local _ = rest\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "permits: a lease is shortened under its holder",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/lease.lua",
                from: "math.max(ends, now + ARGV[3])",
                to: "now + ARGV[3]",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a waiter without a request in flight leaves an entry when it gives up",
            edits: &[Edit {
                file: "src/store/redis/kinds/semaphore/release.lua",
                from: "if ARGV[4] ~= 'leave' then",
                to: "if true then",
            }],
        },
    ),
    (
        Finder::Unit("primitives::permits::tests::permit_is_not_handed_off_after_its_id_was_read"),
        Defect {
            says: "permits: an id that was read passes to the next task",
            edits: &[Edit {
                file: "src/primitives/permits.rs",
                from: "        self.held.watch.forbid_handoff();\n        let Claim",
                to: "        let Claim",
            }],
        },
    ),
    (
        Finder::Unit("engine::watchdog::tests::watchdog_processes_all_received_replies_at_once"),
        Defect {
            says: "the watchdog handles only a few replies each time that it runs",
            edits: &[Edit {
                file: "src/engine/watchdog/mod.rs",
                from: "Some(answered) = unconstrained(asked.next()) => self.received(answered),",
                to: "Some(answered) = asked.next() => self.received(answered),",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::subscriptions::tests::slow_subscription_to_many_names_keeps_the_connection",
        ),
        Defect {
            says: "all subscriptions are requested at once",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "to_ask.len().min(ON_THEIR_WAY - asked.len())",
                to: "to_ask.len()",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::missing_permission_is_forgotten_on_the_next_connection"),
        Defect {
            says: "wanted subscriptions are not requested when a connection begins",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "self.table.lock().begin();",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::waiting::tests::late_replies_slow_down_waiters_of_a_client_with_many_names",
        ),
        Defect {
            says: "waiters with late replies send requests as often as before",
            edits: &[Edit {
                file: "src/engine/acquire/waiting.rs",
                from: "longest.max(late.min(LONGEST_LATE_WAIT))",
                to: "longest.max(late.min(Duration::ZERO))",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::shutdown_counts_running_requests_as_pending",
        ),
        Defect {
            says: "a shutdown does not wait for requests in flight",
            edits: &[Edit {
                file: "src/engine/core.rs",
                from: "self.asking.load(Ordering::Acquire)",
                to: "self.asking.load(Ordering::Acquire) * 0",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::offered_grant_is_released_when_the_client_shuts_down",
        ),
        Defect {
            says: "an offered grant is not released when its client is closed",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "            drop(entry.take_offered());\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::client_hands_off_nothing_after_its_shutdown",
        ),
        Defect {
            says: "permits are handed off within a closed client",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "if self.core.open.is_closed() || !of_use ||",
                to: "if !of_use ||",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::offered_grant_goes_to_the_next_task_when_the_first_leaves",
        ),
        Defect {
            says: "an offered grant is lost when its task leaves",
            edits: &[Edit {
                file: "src/engine/contention/request_slot.rs",
                from: "let offered = entry.take_offered();",
                to: "let offered = None;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::offered_grant_is_released_when_no_task_takes_it",
        ),
        Defect {
            says: "an offered grant stays with a task that does not take it",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "entries.plan(hold.object(), now + HANDOFF_LIMIT, &self.core);",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::waiter_does_not_use_an_offered_grant_that_the_store_lost",
        ),
        Defect {
            says: "the reported loss of an offered grant is ignored",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "offered.into_iter().for_each(|offered| offered.handoff.disown(id));",
                to: "let _ = offered;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::offers::offered_grant_is_released_when_no_task_takes_it",
        ),
        Defect {
            says: "a dropped hand-off grant of permits is not released",
            edits: &[Edit {
                file: "src/engine/contention/handoff.rs",
                from: "self.core.pending.queue(PendingRelease::of(&from, ReleaseMode::HandOver, now));",
                to: "if from.object().traits().is_exclusive() {\n                self.core.pending.queue(PendingRelease::of(&from, ReleaseMode::HandOver, now));\n            }",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::readers_in_line_acquire_before_a_later_writer",
        ),
        Defect {
            says: "the time in line is not counted",
            edits: &[Edit {
                file: "src/engine/acquire/attempt.rs",
                from: "slot.as_ref().and_then(|slot| slot.position.since).map(Instant::from),",
                to: "slot.as_ref().and_then(|slot| slot.position.since).map(Instant::from).filter(|_| false),",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::idle::unpolled_latch_waiter_delays_no_later_waiter",
        ),
        Defect {
            says: "an unpolled task that waits for a reply keeps the request slot",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "        if matches!(self.slot, SlotOwner::Requester(_)) {\n            return self.look_at_requester(now);",
                to: "        if matches!(self.slot, SlotOwner::Requester(_)) {\n            return None;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::idle::task_keeps_its_request_slot_until_its_planned_request",
        ),
        Defect {
            says: "a task that sleeps until its timer loses the request slot",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "Some(until) if now < until && !self.inbox.is_notified() => {",
                to: "Some(until) if now < until && self.inbox.is_notified() => {",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::idle::task_that_lost_its_request_slot_takes_no_later_notification",
        ),
        Defect {
            says: "a task that lost the request slot receives notifications for the next one",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "let next = Arc::new(wait_state.inbox.another());",
                to: "let next = Arc::clone(&wait_state.inbox);",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::idle::late_grant_is_kept_by_a_task_that_lost_its_request_slot",
        ),
        Defect {
            says: "a late grant takes the request slot of another task",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "if entry.is_asked_by(slot.ticket()) {",
                to: "if entry.is_asked_by(slot.ticket()) || !hold.name().as_str().is_empty() {",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::century_lease_is_checked_again_soon_after_a_failed_check",
        ),
        Defect {
            says: "a hold without an end is checked again after years",
            edits: &[Edit {
                file: "src/engine/watchdog/schedule.rs",
                from: ".min(hold.grant.claim.ttl / 10).min(LONGEST_DOUBT);",
                to: ".min(hold.grant.claim.ttl / 10).max(LONGEST_DOUBT / 1_000);",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::rejected_permit_release_is_retried_until_the_store_allows_it",
        ),
        Defect {
            says: "a release of permits without a lease is given up",
            edits: &[Edit {
                file: "src/engine/release/background.rs",
                from: "match withdrawal.claim.is_endless() {",
                to: "match withdrawal.claim.is_endless() && withdrawal.more {",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::rejected_release_is_retried_when_the_store_recovers",
        ),
        Defect {
            says: "a rejected release waits for its minute even after a reconnect",
            edits: &[Edit {
                file: "src/engine/release/background.rs",
                from: "            () = core.store_recovered.notified() => {}\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("engine::watchdog::tests::expired_write_hold_with_a_read_hold_is_released"),
        Defect {
            says: "an expired writer that also reads is not released",
            edits: &[Edit {
                file: "src/engine/watchdog/mod.rs",
                from: "if hold.may_outlast_its_lease() {",
                to: "if hold.may_outlast_its_lease() && hold.shares() == 0 {",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 76),
        Defect {
            says: "a multi-lock forgets a member when it is released",
            edits: &[Edit {
                file: "src/primitives/multi.rs",
                from: "        let each = self.guards.into_iter().map(|guard| async {\n",
                to: "        let mut guards = self.guards;\n        std::mem::forget(guards.pop());\n        let each = guards.into_iter().map(|guard| async {\n",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 76),
        Defect {
            says: "a multi-lock keeps its members when a try fails",
            edits: &[Edit {
                file: "src/primitives/multi.rs",
                from: "        gathered.release(None).await;\n",
                to: "        gathered.guards.into_iter().for_each(std::mem::forget);\n",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 55),
        Defect {
            says: "a multi-lock is held while one member is",
            edits: &[Edit {
                file: "src/primitives/multi.rs",
                from: ".try_fold(Duration::MAX, |least, left| Ok(least.min(left?)))",
                to: ".reduce(|one, other| one.or(other)).unwrap_or(Ok(Duration::ZERO))",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 76),
        Defect {
            says: "a multi-lock keeps members for as long as it waits for another one",
            edits: &[
                Edit {
                    file: "src/primitives/multi.rs",
                    from: "        if before.replace(owner.clone()) == Some(owner) {\n",
                    to: "        if before.replace(owner.clone()) == Some(owner) && false {\n",
                },
                Edit {
                    file: "src/primitives/multi.rs",
                    from: "    for _ in 0..HOLDER_LOOKS {\n",
                    to: "    loop {\n",
                },
            ],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a repeated release of a semaphore adds its permits again",
            edits: &[Edit {
                file: "src/store/redis/kinds/semaphore/release.lua",
                from: "if permits then\n    redis.call('HDEL', KEYS[2], ARGV[1])\nend",
                to: "if permits and not back then\n    redis.call('HDEL', KEYS[2], ARGV[1])\nend",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::text_in_a_number_key_stays_unchanged_and_out_of_errors"),
        Defect {
            says: "a key with another text counts as a missing reply, and the error shows the text",
            edits: &[Edit {
                file: "src/store/redis/replies.rs",
                from: "(Err(_), Value::BulkString(_)) => Err(no_number()),",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::tests::text_in_a_number_key_stays_unchanged_and_out_of_errors"),
        Defect {
            says: "the deletion of a latch deletes a key with another text",
            edits: &[Edit {
                file: "src/store/redis/kinds/delete.lua",
                from: "local _, refused, there = number_at(KEYS[1])",
                to: "local refused, there = false, redis.call('GET', KEYS[1])",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::rate_limiter::tests::limiter_grants_at_most_its_rate_in_any_interval",
        ),
        Defect {
            says: "a rate limiter grants a repeated request twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/acquire.lua",
                from: "if redis.call('ZSCORE', it.permits, ARGV[2]) then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::rate_limiter::tests::limiter_grants_at_most_its_rate_in_any_interval",
        ),
        Defect {
            says: "a rate limiter lets permits come back before the interval ends",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/prelude.lua",
                from: "it.gone = whole(now - it.interval)",
                to: "it.gone = whole(now - it.interval + 5)",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::rate_limiter::tests::limiter_grants_at_most_its_rate_in_any_interval",
        ),
        Defect {
            says: "a rate limiter returns the wait for its oldest permits alone",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/acquire.lua",
                from: "missing, score = missing - permits, tonumber(some[i + 1])",
                to: "missing, score = 0, tonumber(some[i + 1])",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::rate_limiter::tests::limiter_waits_one_interval_after_the_clock_was_set_back",
        ),
        Defect {
            says: "permits of a rate limiter are taken for as long as a clock was ahead",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/acquire.lua",
                from: "redis.call('ZADD', it.permits, whole(now), ahead[i])",
                to: "redis.call('ZADD', it.permits, ahead[i + 1], ahead[i])",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::rate_limiter::tests::limiter_repairs_a_counter_that_outlives_its_acquisitions",
        ),
        Defect {
            says: "a rate limiter uses a counter that is older than its window",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/prelude.lua",
                from: "if redis.call('ZCARD', it.permits) == it.old then",
                to: "if redis.call('ZCARD', it.permits) == it.old and not there then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "released permits of a rate limiter come back twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/release.lua",
                from: "redis.call('ZREM', it.permits, ARGV[1])\n",
                to: "local _ = ARGV[1]\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "an update of a rate limiter forgets the acquired permits",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/set.lua",
                from: "local keeps_window = how == 'update' and old == kind",
                to: "local keeps_window = how == 'update' and not old",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::rate_limiter::tests::throttle_grants_at_its_pace_for_any_seed",
        ),
        Defect {
            says: "a throttle grants a repeated request twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/rate_limiter/throttle.lua",
                from: "if last == ARGV[4] then",
                to: "if last == '' then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::replies::tests::denied_keys_are_named_up_to_a_limit"),
        Defect {
            says: "the error for a denied key does not name the key",
            edits: &[Edit {
                file: "src/store/redis/replies.rs",
                from: "if code == \"NOPERM\" && message.contains(\" key\") =>",
                to: "if code == \"NOPERM\" && message.contains(\"?\") =>",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated count of a latch counts twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/latch/count_down.lua",
                from: "if before then\n    return before\nend",
                to: "local _ = before",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a barrier opens before all members have arrived",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "if count < parties or",
                to: "if count + 1 < parties or",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a dead member counts at a barrier for ever",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a generation of a barrier is not counted",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "local generation = redis.call('INCR', KEYS[2])",
                to: "local generation = 1",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a repeated arrival after an opening counts as another arrival",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "if passed then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "the members of an opening stay in the set",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "    redis.call('ZREM', KEYS[1], member)\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a double barrier lets members in while others are inside",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "or is_occupied() then",
                to: "then",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a member leaves a double barrier before the others",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/left.lua",
                from: "if count == 0 then",
                to: "if true then",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a double barrier lets in all waiting members",
            edits: &[
                Edit {
                    file: "src/store/redis/kinds/barrier/arrive.lua",
                    from: "if member ~= ARGV[1] and index < parties - 1 then",
                    to: "if member ~= ARGV[1] then",
                },
                Edit {
                    file: "src/store/redis/kinds/barrier/arrive.lua",
                    from: "0, parties - 1)) do",
                    to: "0, -1)) do",
                },
            ],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a dead member stays inside a double barrier",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/left.lua",
                from: "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "an opening is not announced",
            edits: &[Edit {
                file: "src/store/redis/kinds/barrier/arrive.lua",
                from: "redis.pcall('PUBLISH', ARGV[4], '0')\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "two leaders have the same term",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/acquire.lua",
                from: "redis.pcall('INCRBY', KEYS[3], ARGV[5])",
                to: "redis.pcall('SET', KEYS[3], ARGV[5]) and tonumber(ARGV[5])",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 280),
        Defect {
            says: "an old record counts as that of the leader",
            edits: &[Edit {
                file: "src/store/redis/kinds/election/leader.lua",
                from: "if record[1] ~= owner then",
                to: "if not record[1] then",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "two candidates lead at the same time",
            edits: &[
                Edit {
                    file: "src/store/redis/kinds/lock/acquire.lua",
                    from: "if owner and owner ~= ARGV[1] then",
                    to: "if owner and owner ~= ARGV[1] and not ARGV[5] then",
                },
                Edit {
                    file: "src/store/redis/kinds/lock/acquire.lua",
                    from: "if not owner then",
                    to: "if owner ~= ARGV[1] then",
                },
            ],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a client that does not lead writes the record",
            edits: &[Edit {
                file: "src/store/redis/kinds/election/proclaim.lua",
                from: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a record is not announced to observers",
            edits: &[Edit {
                file: "src/store/redis/kinds/election/proclaim.lua",
                from: "redis.pcall('PUBLISH', ARGV[5], '1')\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a renewal keeps the lock of a leader and not its record",
            edits: &[Edit {
                file: "src/store/redis/kinds/election/renew.lua",
                from: "        redis.pcall('PEXPIRE', KEYS[2 * i], ttl)\n",
                to: "",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 1238),
        Defect {
            says: "a repeated acquisition takes permits again",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/acquire.lua",
                from: "        missing = missing + 1\n    end\nend\n\nif missing > free",
                to: "        missing = missing + 1\n    end\nend\nmissing = #ARGV - 2\n\nif missing > free",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 41),
        Defect {
            says: "a script grants a reader while a writer holds",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/read.lua",
                from: "    if pttl ~= -2 then\n        return in_the_way(KEYS[1], mode, pttl)\n    end",
                to: "    if pttl ~= -2 and not mode then\n        return in_the_way(KEYS[1], mode, pttl)\n    end",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 41),
        Defect {
            says: "a script grants a writer while readers hold",
            edits: &[Edit {
                file: "src/store/redis/kinds/read_write/write.lua",
                from: "if pttl ~= -2 and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then",
                to: "if pttl ~= -2 and redis.call('HGET', KEYS[1], 'mode') == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::sharing::acquire_read_with_refuses_the_write_guard_of_another_client",
        ),
        Defect {
            says: "a guard of another client allows a read hold during its write hold",
            edits: &[Edit {
                file: "src/primitives/lock.rs",
                from: "if !other.is_of(&self.engine) {",
                to: "if !other.is_of(&self.engine) && self.name().as_str().is_empty() {",
            }],
        },
    ),
    (
        Finder::Link(
            "discovery::sentinel_views::tests::newest_epoch_wins_and_most_reports_decide_within_an_epoch",
        ),
        Defect {
            says: "the majority of old sentinels outweighs a newer epoch",
            edits: &[Edit {
                file: "link/src/discovery/sentinel_views.rs",
                from: "(it.epoch, votes(it), Reverse(it.master.to_string()))",
                to: "(votes(it), it.epoch, Reverse(it.master.to_string()))",
            }],
        },
    ),
    (
        Finder::Link(
            "discovery::sentinel_views::tests::lower_epoch_is_used_if_a_majority_reports_no_higher_epoch",
        ),
        Defect {
            says: "a single sentinel that missed a failover leads back to the old primary",
            edits: &[Edit {
                file: "link/src/discovery/sentinel_views.rs",
                from: "it.epoch >= before.epoch || 2 * votes(it) > sentinels",
                to: "it.epoch >= before.epoch || votes(it) > 0 || sentinels == 0",
            }],
        },
    ),
    (
        Finder::Link(
            "discovery::sentinels::tests::sentinel_with_the_flag_master_down_counts_as_usable",
        ),
        Defect {
            says: "a sentinel that reports the primary as down does not count as usable",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "it.split(',').any(|it| it == \"s_down\")",
                to: "it.contains(\"_down\")",
            }],
        },
    ),
    (
        Finder::Unit("engine::events::tests::release_missed_by_a_new_server_is_repeated"),
        Defect {
            says: "recent releases are not repeated at a new server",
            edits: &[Edit {
                file: "src/engine/recent.rs",
                from: "all.filter(|(_, until)| *until > now).collect()",
                to: "all.filter(|(_, until)| *until < now).collect()",
            }],
        },
    ),
    (
        Finder::Unit("engine::events::tests::release_in_flight_is_repeated_at_the_new_server"),
        Defect {
            says: "a release that is noted after a change of the server is not repeated",
            edits: &[Edit {
                file: "src/engine/core.rs",
                from: "self.moves() != moves",
                to: "self.moves() < moves",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::events::tests::repeated_release_is_queued_once_for_several_server_changes",
        ),
        Defect {
            says: "each failover queues the same releases again",
            edits: &[Edit {
                file: "src/engine/pending.rs",
                from: "again.insert(true);\n                return;",
                to: "again.insert(true);",
            }],
        },
    ),
    (
        Finder::Unit(
            "blocking::lock::tests::thread_with_a_read_hold_cannot_reacquire_its_lost_write_hold",
        ),
        Defect {
            says: "a thread that lost its write hold waits for its own read hold",
            edits: &[Edit {
                file: "src/blocking/lock.rs",
                from: "Err(Error::Lost { .. }) => self.enter_under_write(max_wait),",
                to: "Err(Error::Lost { .. }) => Ok(None),",
            }],
        },
    ),
    (
        Finder::Unit(
            "blocking::lock::tests::reentry_with_more_replicas_needs_their_acknowledgement",
        ),
        Defect {
            says: "a reentry does not wait for the replicas that it requires",
            edits: &[Edit {
                file: "src/engine/acquire/mod.rs",
                from: "Some(replicas) => self.acknowledged(replicas, again, max_wait.until()).await,",
                to: "Some(_) => Ok(again),",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::dropped_reader_with_a_century_lease_leaves_no_state",
        ),
        Defect {
            says: "a released reader without a lease stays known",
            edits: &[Edit {
                file: "src/engine/release/background.rs",
                from: "            withdrawal.hold.iter().for_each(|hold| contention.left(hold));\n",
                to: "            let leaves = !withdrawal.claim.is_endless();\n            withdrawal.hold.iter().filter(|_| leaves).for_each(|hold| contention.left(hold));\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::abandoned_release_of_a_reader_leaves_no_state",
        ),
        Defect {
            says: "a reader whose release was given up stays known",
            edits: &[Edit {
                file: "src/engine/release/background.rs",
                from: "            withdrawal.hold.iter().for_each(|hold| contention.left(hold));\n",
                to: "            withdrawal.hold.iter().filter(|_| more.is_ok()).for_each(|hold| contention.left(hold));\n",
            }],
        },
    ),
    (
        Finder::Unit("engine::held::tests::reentry_returns_a_rejected_login_at_once"),
        Defect {
            says: "a reentry with a rejected login waits until its lease ends",
            edits: &[Edit {
                file: "src/engine/held.rs",
                from: "(Failure::is_temporary, hold.ends())",
                to: "(Failure::is_temporary_for_release, hold.ends())",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::pending::tests::release_that_is_queued_again_while_it_runs_is_repeated",
        ),
        Defect {
            says: "a release that is queued again while it runs is forgotten",
            edits: &[Edit {
                file: "src/engine/pending.rs",
                from: "if again == Some(true) {",
                to: "if again.is_none() && pending.unique_key().is_some() {",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::failed_hold_count_request_is_not_retried_after_the_release",
        ),
        Defect {
            says: "the count of a released hold is sent",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "let shares = hold.shares();\n        sent.store",
                to: "let shares = hold.shares().max(1);\n        sent.store",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::hundred_failed_reentries_queue_one_hold_count_request",
        ),
        Defect {
            says: "each failed reentry sends a count",
            edits: &[Edit {
                file: "src/engine/pending.rs",
                from: "Self::Recount { hold } => Some(UniqueKey::Recount(hold.grant.id)),",
                to: "Self::Recount { .. } => None,",
            }],
        },
    ),
    (
        Finder::Unit("engine::recent::tests::only_released_holds_are_remembered"),
        Defect {
            says: "the release of a lease of a century is not repeated",
            edits: &[Edit {
                file: "src/engine/recent.rs",
                from: "claim.is_number()",
                to: "claim.is_endless()",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::background::tests::release_sent_before_a_failover_is_repeated_once_afterwards",
        ),
        Defect {
            says: "a release is repeated at the server that has executed it",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "moves.store(core.moves(), Ordering::Relaxed);",
                to: "moves.fetch_max(u64::from(core.moves() > 1), Ordering::Relaxed);",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::release::tests::release_is_in_doubt_when_the_new_server_never_had_the_hold",
        ),
        Defect {
            says: "a hold that a failover lost counts as released",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "if self.core.moves() != moves =>",
                to: "if self.core.moves() < moves =>",
            }],
        },
    ),
    (
        Finder::Unit("engine::clock::tests::clock_ignores_jitter_below_a_millisecond"),
        Defect {
            says: "the time between two clock readings counts as a suspension",
            edits: &[Edit {
                file: "src/engine/clock.rs",
                from: "..BETWEEN_READINGS => now,",
                to: "..1 => now,",
            }],
        },
    ),
    (
        Finder::Unit("blocking::lock::tests::reentry_waits_no_longer_than_its_timeout"),
        Defect {
            says: "a reentry has no timeout",
            edits: &[Edit {
                file: "src/engine/acquire/deadline.rs",
                from: "Self::Once => Some(request_timeout),",
                to: "Self::Once => None,",
            }],
        },
    ),
    (
        Finder::Unit("engine::held::tests::lock_with_a_pending_write_is_not_handed_off"),
        Defect {
            says: "a lock is handed off while a guarded write may be in flight",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "fresh && sound && state.writes == 0",
                to: "fresh && sound",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::held::tests::release_of_a_lost_hold_reports_the_loss_to_all_its_guards",
        ),
        Defect {
            says: "the release of one share releases the hold",
            edits: &[
                Edit {
                    file: "src/engine/hold.rs",
                    from: "self.shares.fetch_sub(1, Ordering::AcqRel) - 1",
                    to: "self.shares.fetch_sub(1, Ordering::AcqRel) * 0",
                },
                Edit {
                    file: "src/engine/hold.rs",
                    from: "before.ok().map(|before| before - 1)",
                    to: "before.ok().map(|before| before * 0)",
                },
            ],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::renewed_lease_starts_when_the_request_was_sent",
        ),
        Defect {
            says: "a renewed lease counts from the reply",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "state.leased_at = state.leased_at.max(asked_at);",
                to: "state.leased_at = now;",
            }],
        },
    ),
    (
        Finder::Unit("engine::watchdog::schedule::tests::grant_in_a_hand_off_is_not_renewed"),
        Defect {
            says: "the watchdog renews a hold during its release",
            edits: &[
                Edit {
                    file: "src/engine/release/mod.rs",
                    from: "        self.watchdog.unwatch(hold.grant.id);\n        // Without a reply",
                    to: "        // Without a reply",
                },
                Edit {
                    file: "src/engine/release/mod.rs",
                    from: "        self.watchdog.unwatch(hold.grant.id);\n        tracing",
                    to: "        tracing",
                },
                Edit {
                    file: "src/engine/watchdog/schedule.rs",
                    from: "if watched.hold.remaining(now).is_err() {",
                    to: "if now >= watched.hold.ends() {",
                },
                Edit {
                    file: "src/engine/watchdog/schedule.rs",
                    from: "Some(hold) if hold.remaining(now).is_err() =>",
                    to: "Some(hold) if now >= hold.ends() =>",
                },
            ],
        },
    ),
    (
        Finder::Unit(
            "engine::watchdog::schedule::tests::hold_is_lost_at_once_when_a_renewal_finds_it_missing",
        ),
        Defect {
            says: "a rejected renewal counts as a missing reply",
            edits: &[
                Edit {
                    file: "src/engine/watchdog/mod.rs",
                    from: "gone.iter().for_each(|hold| self.contention.disown(hold));",
                    to: "drop(gone);",
                },
                Edit {
                    file: "src/engine/watchdog/schedule.rs",
                    from: "                self.unwatch(id);\n                return Some(hold);\n",
                    to: "                self.put_off(id, hold.ends());\n",
                },
            ],
        },
    ),
    (
        Finder::Unit("engine::events::tests::release_that_took_long_is_repeated_at_a_new_server"),
        Defect {
            says: "a release without a reply is given up",
            edits: &[Edit {
                file: "src/engine/release/background.rs",
                from: "false => Failure::is_temporary_for_release,",
                to: "false => |_| false,",
            }],
        },
    ),
    (
        Finder::Unit("engine::release::tests::release_succeeds_when_its_first_reply_is_lost"),
        Defect {
            says: "a release whose reply was lost counts as a loss",
            edits: &[Edit {
                file: "src/engine/release/mod.rs",
                from: "unsure: true, .. } => {\n                Ok(Some(ReleaseReply::Freed(",
                to: "unsure: true, .. } if hold.shares() > 9 => {\n                Ok(Some(ReleaseReply::Freed(",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::inbox::tests::notification_before_a_wait_ends_the_wait_at_once",
        ),
        Defect {
            says: "a notification that comes before the wait is forgotten",
            edits: &[Edit {
                file: "src/engine/contention/inbox.rs",
                from: "    pub(crate) async fn until_notified(&self, limit: Instant) -> bool {\n",
                to: "    pub(crate) async fn until_notified(&self, limit: Instant) -> bool {\n        self.notices.lock().ask_at = None;\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::waiting::tests::queued_waiter_sends_a_request_soon_and_then_rarely",
        ),
        Defect {
            says: "waiters without a subscription do not send requests more often",
            edits: &[Edit {
                file: "src/engine/acquire/waiting.rs",
                from: "(SubscriptionLevel::Nothing, _) => spread(self.unhurried(LONGEST_WAIT_UNNOTIFIED)),",
                to: "(SubscriptionLevel::Nothing, _) => spread(self.unhurried(LONGEST_WAIT_UNNOTIFIED * 1_000)),",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::only_the_owner_of_the_request_slot_receives_notifications",
        ),
        Defect {
            says: "waiters are not notified that the connection for messages is lost",
            edits: &[Edit {
                file: "src/engine/contention/mod.rs",
                from: "entries.inboxes().for_each(|inbox| inbox.receive(SubscriptionLevel::Nothing));",
                to: "entries.inboxes().for_each(|inbox| inbox.ask_at(Instant::now()));",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::tests::hand_off_grant_of_an_unpolled_task_goes_to_the_next_task",
        ),
        Defect {
            says: "a hand-off grant stays with a task that does not take it",
            edits: &[Edit {
                file: "src/engine/contention/entry.rs",
                from: "if !others && called.handoff.is_none() {",
                to: "if !others {",
            }],
        },
    ),
    (
        Finder::Unit("engine::contention::tests::grant_that_expires_during_a_hand_off_is_released"),
        Defect {
            says: "a hand-off grant that no task takes is not released",
            edits: &[Edit {
                file: "src/engine/contention/handoff.rs",
                from: "self.core.pending.queue(PendingRelease::of(&from, ReleaseMode::HandOver, now));",
                to: "drop(PendingRelease::of(&from, ReleaseMode::HandOver, now));",
            }],
        },
    ),
    (
        Finder::Unit("engine::stress::shutdown_completes_pending_releases_on_another_runtime"),
        Defect {
            says: "a shutdown on another runtime completes nothing",
            edits: &[Edit {
                file: "src/engine/mod.rs",
                from: "        self.revive();\n        let returned",
                to: "        let returned",
            }],
        },
    ),
    (
        Finder::Unit("engine::held::tests::hold_may_write_until_shutdown_revokes_it"),
        Defect {
            says: "a shutdown does not revoke holds",
            edits: &[Edit {
                file: "src/engine/mod.rs",
                from: "if returned.is_ok() { 0 } else { self.take_back_all() }",
                to: "if returned.is_ok() { 0 } else { self.watchdog.holds().len() }",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::acquire::waiting::tests::waiter_pauses_after_many_notifications_without_a_grant",
        ),
        Defect {
            says: "requests that messages cause have no limit",
            edits: &[Edit {
                file: "src/engine/acquire/waiting.rs",
                from: "(self.vain >= VAIN_QUESTIONS).then_some(VAIN_REST)",
                to: "(self.vain >= VAIN_QUESTIONS * 1_000_000).then_some(VAIN_REST)",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::contention::inbox::tests::queued_waiter_ignores_a_release_that_woke_the_queue_head",
        ),
        Defect {
            says: "a yield window wakes queued waiters, and not waiters without a queue entry",
            edits: &[Edit {
                file: "src/engine/contention/inbox.rs",
                from: "let asks = !(queue_notified && self.notices.lock().queued);",
                to: "let asks = !queue_notified;",
            }],
        },
    ),
    (
        Finder::Unit(
            "engine::pending::tests::release_that_is_queued_again_while_it_runs_is_repeated",
        ),
        Defect {
            says: "a release that was running on an ended runtime is forgotten",
            edits: &[Edit {
                file: "src/engine/pending.rs",
                from: "        let list = self.list.lock();\n        let (number, pending) = list.queued.range(number + 1..).next()?;\n        Some((*number, pending.clone()))",
                to: "        let mut list = self.list.lock();\n        let number = *list.queued.range(number + 1..).next()?.0;\n        list.queued.remove(&number).map(|pending| (number, pending))",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a fair lock is granted to a later waiter",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/acquire.lua",
                from: "not owner and (not head or head == ARGV[1])",
                to: "not owner and (not head or waits)",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a fair lock is granted to the head of its queue while it is held",
            edits: &[
                Edit {
                    file: "src/store/redis/kinds/fair/acquire.lua",
                    from: "if owner == ARGV[1] or not owner and (not head or head == ARGV[1]) then",
                    to: "if owner == ARGV[1] or not owner and not head or head == ARGV[1] then",
                },
                Edit {
                    file: "src/store/redis/kinds/fair/acquire.lua",
                    from: "if not owner then",
                    to: "if owner ~= ARGV[1] then",
                },
            ],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a withdrawal from a fair lock ends the hold of another owner",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/release.lua",
                from: "if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then",
                to: "if redis.call('DEL', KEYS[1]) == 0 then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a withdrawn waiter stays in the queue of a fair lock",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/release.lua",
                from: "    if time_of(ARGV[1], KEYS[3]) then",
                to: "    if false then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "the head of a fair queue is not notified",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/release.lua",
                from: "return notify(head, ARGV[2]) and 0 or -1",
                to: "return 0",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::fair::tests::dead_waiter_gives_up_its_position_within_seconds",
        ),
        Defect {
            says: "a dead waiter of a fair lock is dropped by Redisson's rule alone",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/prelude.lua",
                from: "return (alive or deadline) > now",
                to: "return deadline > now",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::fair::tests::living_waiter_keeps_its_position_after_its_deadline",
        ),
        Defect {
            says: "a living waiter of a fair lock is dropped by Redisson's rule",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/prelude.lua",
                from: "return (alive or deadline) > now",
                to: "return math.min(alive or deadline, deadline) > now",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::kinds::fair::tests::no_deadline_is_moved_into_the_past"),
        Defect {
            says: "a deadline of a fair lock is moved into the past",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/prelude.lua",
                from: "math.max(deadline - millis, math.min(deadline, least))",
                to: "deadline - millis",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::fair::tests::damaged_queue_is_repaired_and_keeps_its_order",
        ),
        Defect {
            says: "a damaged queue of a fair lock is not repaired",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/prelude.lua",
                from: "if redis.call('LLEN', KEYS[2]) ~= redis.call('ZCARD', KEYS[3]) then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::kinds::fair::tests::dead_waiter_behind_a_living_waiter_is_dropped",
        ),
        Defect {
            says: "a dead waiter of a fair lock stays behind a living one",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/prelude.lua",
                from: "for _, owner in ipairs(old) do",
                to: "for _, owner in ipairs({}) do",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::kinds::fair::tests::waiters_keep_their_order_after_an_outage"),
        Defect {
            says: "the waiters of a fair lock lose their order in an outage",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/prelude.lua",
                from: "now - OUTAGE",
                to: "now",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a request without waiting overtakes the queue of a fair lock",
            edits: &[Edit {
                file: "src/store/redis/kinds/fair/acquire.lua",
                from: "(not head or head == ARGV[1])",
                to: "(not head or not waits or head == ARGV[1])",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated change of a map is made again",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/change.lua",
                from: "if before then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a comparison of a map succeeds with every value",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/change.lua",
                from: "if there ~= ARGV[6] then",
                to: "if not there then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a change of a map that changes nothing leaves an idempotency key",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/change.lua",
                from: "        return '0'\n",
                to: "        return once(KEYS[2], ARGV[1], '0', 'HLEN', KEYS[1])\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a sum of a map is added again by a repeated request",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/change.lua",
                from: "redis.call('SET', KEYS[2], sum, 'PX', ARGV[1])\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a map returns values that end the connection",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/read.lua",
                from: "if length > tonumber(ARGV[1]) then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 383),
        Defect {
            says: "the idempotency key of a change of a map is not written",
            edits: &[Edit {
                file: "src/store/redis/kinds/once.lua",
                from: "    redis.call('SET', receipt, reply, 'PX', rest)\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "a client that lost the lock of an entry of a map writes it",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/write.lua",
                from: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 47),
        Defect {
            says: "a computed value of a map replaces that of another task",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/write.lua",
                from: "    if verb == 'HSET' or verb == 'HSETNX' then\n        return redis.pcall(verb, key, first, second)",
                to: "    if verb == 'HSET' or verb == 'HSETNX' then\n        return redis.pcall('HSET', key, first, second)",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "an entry of a map with a TTL never ends",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/change.lua",
                from: "    limited(KEYS[1])\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "after a part of a page of a map, the rest of the page is skipped",
            edits: &[Edit {
                file: "src/store/redis/kinds/scan.lua",
                from: "return {ARGV[3], parts, read}\n",
                to: "return {page[1], parts, {}}\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "primitives::map::tests::every_map_change_notifies_local_caches_if_configured",
        ),
        Defect {
            says: "a change of a map notifies no local cache",
            edits: &[Edit {
                file: "src/store/redis/kinds/map/change.lua",
                from: "        redis.call('PUBLISH', ARGV[8], ARGV[9])\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated change of a set is made again",
            edits: &[Edit {
                file: "src/store/redis/kinds/set/change.lua",
                from: "if before then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a set adds elements even if one of them exists",
            edits: &[Edit {
                file: "src/store/redis/kinds/set/change.lua",
                from: "(verb == 'NONE' and there == 0)",
                to: "(verb == 'NONE')",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated pop of a set takes another element",
            edits: &[Edit {
                file: "src/store/redis/kinds/set/pop.lua",
                from: "if before then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit("codec::hash::tests::hash_function_matches_redisson"),
        Defect {
            says: "the lock of a key has another name than in Java",
            edits: &[Edit { file: "src/codec/hash.rs", from: "hash << 4", to: "hash << 5" }],
        },
    ),
    (
        Finder::Unit("codec::kryo::tests::kryo_codec_writes_text_with_the_bytes_of_java"),
        Defect {
            says: "a short text for Kryo has no end mark",
            edits: &[Edit { file: "src/codec/kryo.rs", from: "*last |= 0x80;", to: "*last |= 0;" }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "expired claims go back in the opposite order",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/acquire.lua",
                from: "string.sub(claims[one], 1, 16) > string.sub(claims[other], 1, 16)",
                to: "string.sub(claims[one], 1, 16) < string.sub(claims[other], 1, 16)",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated claim takes another element",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/acquire.lua",
                from: "if claim then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "the late element of an expired claim counts as done",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/release.lua",
                from: "if not ours then\n    return answered(KEYS[4]) or 0",
                to: "if not ours then\n    return answered(KEYS[4]) or 1",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "the end of a claim removes an element that was not read",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/release.lua",
                from: "local ours = ARGV[2] == 'back' or string.sub(claim, 1, 16) == ARGV[3]",
                to: "local ours = true",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "a repeated push appends twice",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/push.lua",
                from: "if before then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "an element stays in the queue while it is claimed",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/acquire.lua",
                from: "local popped = redis.pcall('LPOP', KEYS[1])",
                to: "local popped = element",
            }],
        },
    ),
    (
        Finder::Simulation("run_objects"),
        Defect {
            says: "the element of an expired claim is lost",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/acquire.lua",
                from: "            redis.call('LPUSH', KEYS[1], string.sub(claims[owner], 18))\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::simulated_server_passes_the_conformance_tests"),
        Defect {
            says: "claims are not renewed",
            edits: &[Edit {
                file: "src/store/redis/kinds/permits/renew.lua",
                from: "if ours == 1 and lease ~= '0' then",
                to: "if false then",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 1355),
        Defect {
            says: "a lost claim removes its element",
            edits: &[Edit {
                file: "src/engine/hold.rs",
                from: "match state.ending.filter(|_| !lost) {",
                to: "match state.ending.filter(|_| true || lost) {",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 237),
        Defect {
            says: "an element that is done comes again after a failover that has its claim",
            edits: &[Edit {
                file: "src/engine/recent.rs",
                from: "        if !released || claim.is_number() {",
                to: "        if !released || claim.is_number() || claim.object.kind == crate::domain::Kind::Queue {",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a replicated claim waits for no replica",
            edits: &[Edit {
                file: "src/primitives/queue.rs",
                from: "lock: self.lock.with(change)",
                to: "lock: self.lock.with(change).with(|settings| settings.replicas = None)",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 213),
        Defect {
            says: "after a failover, the repeated end of a claim gives its element back",
            edits: &[Edit {
                file: "src/engine/recent.rs",
                from: "        list.push_back(RecentRelease { claim: claim.clone(), at: asked_at });",
                to: "        let mut claim = claim.clone();\n        if let crate::domain::Share::Element(ending) = &mut claim.share {\n            *ending = crate::domain::Ending::Back;\n        }\n        list.push_back(RecentRelease { claim, at: asked_at });",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_objects", 274),
        Defect {
            says: "the idempotency key of the release of a claim is not written",
            edits: &[Edit {
                file: "src/store/redis/kinds/queue/release.lua",
                from: "redis.pcall('SET', KEYS[4], '1', 'PX', ARGV[5])\n",
                to: "",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_served", 381),
        Defect {
            says: "after a reconnection all channels count as subscribed to",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.channels.clear();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 9_290),
        Defect {
            says: "a reservation after a failover counts as a fixed lease",
            edits: &[Edit {
                file: "src/store/redis/kinds/lock/renew.lua",
                from: "held = math.max(1, redis.call('PTTL', lock))",
                to: "held = 1",
            }],
        },
    ),
];
