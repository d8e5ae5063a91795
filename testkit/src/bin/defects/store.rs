//! The defects of the store itself, as data.

use crate::{Defect, Edit};

/// What the simulation on a simulated server has to find.
pub(crate) const SERVED: &[Defect] = &[
    Defect {
        says: "one who polls never has a place",
        edits: &[Edit {
            file: "src/engine/acquire/waiting.rs",
            from: "long.then_some(Place::Polling)",
            to: "long.then_some(Place::Kept)",
        }],
    },
    Defect {
        says: "who always comes back never looks for those who poll",
        edits: &[Edit {
            file: "src/engine/hold.rs",
            from: "self.held_for(now) >= LONG_HOLD || in_its_turn()",
            to: "self.held_for(now) >= LONG_HOLD * 1_000 && in_its_turn()",
        }],
    },
    Defect {
        says: "a reservation has no end",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "if redis.pcall('PEXPIRE', KEYS[1], millis) ~= 1 then",
            to: "if false then",
        }],
    },
    Defect {
        says: "a reservation is told nobody",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "if not tell(place, 0) and announce('0') ~= 0 then\n        return -1\n    end\n    if not reserve",
            to: "if not reserve",
        }],
    },
    Defect {
        says: "who withdraws keeps its place",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "local queued = redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1",
            to: "local queued = false",
        }],
    },
    Defect {
        says: "nobody unsubscribes",
        edits: &[Edit {
            file: "src/store/redis/subscriptions/table.rs",
            from: "        all.extend(unsubscribe.into_values().map(|channels| of(None, channels)));\n",
            to: "        drop(unsubscribe);\n",
        }],
    },
    Defect {
        says: "a lock is granted whoever has it",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/acquire.lua",
            from: "if held[2] ~= ARGV[1] then",
            to: "if false then",
        }],
    },
    Defect {
        says: "a queue has no end",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/acquire.lua",
            from: "    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[4])) == 'table' then",
            to: "    if false then",
        }],
    },
    Defect {
        says: "a gap tells nobody who queues",
        edits: &[Edit {
            file: "src/store/redis/kinds/lock/hand_over.lua",
            from: "    announce(tell(place, millis) and '00' or '0')\n",
            to: "    announce('00')\n",
        }],
    },
    Defect {
        says: "after a reconnection all channels count as subscribed to",
        edits: &[Edit {
            file: "src/store/redis/subscriptions/table.rs",
            from: "        self.channels.clear();\n",
            to: "",
        }],
    },
    Defect {
        says: "what is wanted is not asked for when a connection begins",
        edits: &[Edit {
            file: "src/store/redis/subscriptions/mod.rs",
            from: "self.table.lock().begin();",
            to: "",
        }],
    },
];
