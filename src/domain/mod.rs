//! The basic types: names, owners, claims, leases.
//!
//! They do no I/O and read no clock. The types about connections are in the crate `leasehold-link`.

mod audit;
mod claim;
mod client_info;
mod guarded;
mod hashed;
mod health;
mod inspection;
mod leader;
mod lease;
mod name;
mod object;
mod owner;
mod permit;
mod rate;
mod reason;
mod replicas;
mod report;
mod stats;
mod wait_strategy;

pub(crate) use leasehold_link::{
    About, Backoff, Failure, Finding, LogThrottle, Mutex, NodeHealth, Refusal, Role, spread,
};

pub use self::{
    audit::ForcedRelease,
    claim::Holder,
    client_info::ClientInfo,
    guarded::{Script, Value, Write},
    health::Health,
    inspection::{Inspection, NameCursor, ObjectKind, Waiter},
    leader::Leader,
    lease::InvalidDuration,
    name::{InvalidName, Name},
    owner::{InvalidOwner, Owner},
    permit::{InvalidPermitId, PermitId},
    rate::{Pace, Quota, Rate, RatePermits},
    reason::LostReason,
    replicas::Replicas,
    report::ServerReport,
    stats::Stats,
    wait_strategy::WaitStrategy,
};
pub(crate) use self::{
    claim::{
        Claim, Element, Ending, MOST_TOKEN, Outcome, Place, ReleaseMode, ReleaseReply,
        RemoteWaiters, Renewal, Share, Taken, Token, Verdict, in_millis,
    },
    client_info::HoldInfo,
    guarded::{Edit, Notice, Work},
    hashed::Map,
    lease::{CENTURY, Lease, checked},
    object::{Kind, Object, WaiterRecord},
    owner::Identity,
    permit::{Counts, MOST_AT_ONCE, MOST_PERMITS, permits_of},
    reason::Ended,
};
