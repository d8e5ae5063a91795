//! The words: names, owners, claims, leases, failures.
//!
//! Nothing here does I/O, reads a clock or knows Redis.

mod claim;
mod failure;
mod hashed;
mod lease;
mod name;
mod owner;
mod reason;

pub use self::{
    claim::Holder,
    lease::InvalidDuration,
    name::{InvalidName, Name},
    owner::{InvalidOwner, Owner},
    reason::LostReason,
};
pub(crate) use self::{
    claim::{Claim, GivenBack, Others, Outcome, Place, ReleaseMode, Renewal, Verdict, in_millis},
    failure::Failure,
    hashed::{Map, Set},
    lease::{Lease, checked},
    owner::Identity,
};
