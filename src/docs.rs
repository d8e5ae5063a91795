//! The pages of the documentation: the guide, the guarantees, the protocol and others.
//!
//! `cargo test` compiles and runs every Rust example in these pages, on the in-memory store.
//!
//! The folder `docs/` of the repository has the same pages, with links to files. In rustdoc, the
//! links must lead to modules. If a link has two definitions, Markdown uses the first definition.
//! Therefore `src/docs/links.md`, which defines links to modules, comes before each page.

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/comparison.md")]
pub mod comparison {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/dependencies.md")]
pub mod dependencies {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/design.md")]
pub mod design {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/messages.md")]
pub mod messages {}

/// The manual: [getting started](guide::getting_started), [primitives](guide::primitives),
/// [lock](guide::lock), [other locks](guide::other_locks), [synchronizers](guide::synchronizers),
/// [collections](guide::collections), [correctness](guide::correctness),
/// [deployments](guide::deployments), [errors and settings](guide::errors_and_settings),
/// [observability](guide::observability), [runbook](guide::runbook), [ACL](guide::acl),
/// [recipes](guide::recipes) and the command: [run](guide::command) and
/// [show, watch, check](guide::command_inspect).
pub mod guide {
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/getting-started.md")]
    pub mod getting_started {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/primitives.md")]
    pub mod primitives {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/lock.md")]
    pub mod lock {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/other-locks.md")]
    pub mod other_locks {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/synchronizers.md")]
    pub mod synchronizers {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/collections.md")]
    pub mod collections {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/correctness.md")]
    pub mod correctness {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/deployments.md")]
    pub mod deployments {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/errors-and-settings.md")]
    pub mod errors_and_settings {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/observability.md")]
    pub mod observability {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/runbook.md")]
    pub mod runbook {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/acl.md")]
    pub mod acl {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/recipes.md")]
    pub mod recipes {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/command.md")]
    pub mod command {}

    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("../docs/guide/command-inspect.md")]
    pub mod command_inspect {}
}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/migrating-from-redisson.md")]
pub mod migrating_from_redisson {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/performance.md")]
pub mod performance {}

#[doc = include_str!("docs/links.md")]
#[doc = include_str!("../docs/protocol.md")]
pub mod protocol {}

/// Lets `cargo test` compile the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
