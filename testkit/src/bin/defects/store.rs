//! The defects of the store itself, as data.

use crate::{Defect, Edit};

/// Defects that the simulation `run_served` finds.
pub(crate) const SERVED: &[Defect] = &[
    Defect {
        says: "a lock that is always contended has no yield window",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "return now - last >= window * (outsiders and 5 or 50)",
            to: "return false",
        }],
    },
    Defect {
        says: "a reservation has no TTL",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "    redis.call('PEXPIRE', KEYS[1], ARGV[5])\n",
            to: "",
        }],
    },
    Defect {
        says: "no client is notified of a reservation",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "local answer = notify(place, 0) and 0 or announce('0')",
            to: "local answer = 0",
        }],
    },
    Defect {
        says: "a withdrawal keeps its queue entry",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "local queued = redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1",
            to: "local queued = false",
        }],
    },
    Defect {
        says: "a queue entry that is put back leaves a queue without a TTL",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[6])) == 'table' then",
            to: "    if false then",
        }],
    },
    Defect {
        says: "no channel is unsubscribed",
        edits: &[Edit {
            file: "src/store/redis/subscriptions/table.rs",
            from: "        all.extend(unsubscribe.into_values().map(|channels| of(None, channels)));\n",
            to: "        drop(unsubscribe);\n",
        }],
    },
    Defect {
        says: "a lock is granted while another owner holds it",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/acquire.lua",
            from: "if owner and owner ~= ARGV[1] then",
            to: "if false then",
        }],
    },
    Defect {
        says: "a queue has no TTL",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/acquire.lua",
            from: "    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[4])) == 'table' then",
            to: "    if false then",
        }],
    },
    Defect {
        says: "no client that queues is notified of a yield window",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "    announce(notify(place, window) and '00' or '0')\n",
            to: "    announce('00')\n",
        }],
    },
];
