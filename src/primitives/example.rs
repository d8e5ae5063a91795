//! Macros for sections of the rustdoc. The macros for examples add the hidden lines that create the
//! client and the object.

/// Writes the section *Examples* of an item of the async API. Rustdoc hides the lines that create
/// the client and the object.
macro_rules! example {
    (lock: $($line:expr),+) => {
        $crate::primitives::example!("let lock = client.lock(\"orders:42\")?;": $($line),+)
    };
    (fenced: $($line:literal),+) => {
        $crate::primitives::example!("let lock = client.fenced_lock(\"orders:42\")?;": $($line),+)
    };
    (both: $($line:literal),+) => {
        $crate::primitives::example!("let both = client.multi_lock([\"from\", \"to\"])?;": $($line),+)
    };
    (multi: $($line:expr),+) => {
        $crate::primitives::example!("let lock = client.multi_lock([\"from\", \"to\"])?;": $($line),+)
    };
    (quorum: $($line:expr),+) => {
        $crate::primitives::example!(
            "let quorum = leasehold::QuorumClient::of([client, leasehold::Client::in_memory(), \
             leasehold::Client::in_memory()])?; let lock = quorum.lock(\"orders:42\")?;": $($line),+)
    };
    (prices: $($line:literal),+) => {
        $crate::primitives::example!("let prices = client.read_write_lock(\"prices\")?;": $($line),+)
    };
    (printers: $($line:literal),+) => {
        $crate::primitives::example!(
            "let printers = client.semaphore(\"printers\")?; printers.add(3).await?;": $($line),+)
    };
    (permits: $($line:literal),+) => {
        $crate::primitives::example!(
            "let permits = client.expirable_semaphore(\"printers\")?; permits.set(3).await?;": $($line),+)
    };
    (latch: $($line:literal),+) => {
        $crate::primitives::example!("let ready = client.latch(\"workers-ready\")?;": $($line),+)
    };
    (api: $($line:literal),+) => {
        $crate::primitives::example!(
            "let api = client.rate_limiter(\"api\")?; let rate = leasehold::Rate::per(10, \
             Duration::from_secs(1)); api.set_if_absent(rate).await?;": $($line),+)
    };
    (user: $($line:literal),+) => {
        $crate::primitives::example!(
            "let pace = leasehold::Pace::per(10, Duration::from_secs(1)).burst(5); let user = \
             client.throttle(\"user:7\", pace)?;": $($line),+)
    };
    (barrier: $($line:literal),+) => {
        $crate::primitives::example!("let barrier = client.barrier(\"phase\", 2)?;": $($line),+)
    };
    (jobs: $($line:literal),+) => {
        $crate::primitives::example!("let jobs = client.queue::<String>(\"jobs\")?;": $($line),+)
    };
    (claim: $($line:expr),+) => {
        $crate::primitives::example!(
            "let jobs = client.queue::<String>(\"jobs\")?; jobs.push(\"a\").await?; \
             let claim = jobs.claim().await?;": $($line),+)
    };
    (double: $($line:literal),+) => {
        $crate::primitives::example!("let barrier = client.double_barrier(\"phase\", 2)?;": $($line),+)
    };
    (alone: $($line:literal),+) => {
        $crate::primitives::example!("let barrier = client.double_barrier(\"phase\", 1)?;": $($line),+)
    };
    (election: $($line:literal),+) => {
        $crate::primitives::example!("let election = client.election(\"scheduler\")?;": $($line),+)
    };
    (orders: $($line:literal),+) => {
        $crate::primitives::example!("let orders = client.map::<String, i64>(\"orders\")?;": $($line),+)
    };
    (seen: $($line:literal),+) => {
        $crate::primitives::example!("let seen = client.set::<String>(\"seen\")?;": $($line),+)
    };
    ($object:literal: $($line:expr),+) => {
        concat!(
            "\n# Examples\n\n```\n",
            "# #[tokio::main(flavor = \"current_thread\", start_paused = true)]\n",
            "# async fn main() -> Result<(), leasehold::Error> {\n",
            "# #[allow(unused_imports)] use std::time::Duration;\n",
            "# let client = leasehold::Client::in_memory();\n",
            "# ", $object, "\n",
            $($line, "\n",)+
            "# Ok(()) }\n```"
        )
    };
}

/// Writes the sections *Errors* and *Cancel safety* of a method. The method has the errors of the
/// method `$other`, and the errors in the text `$more`. The words `read`, `change` and `acquire`
/// select the text about cancel safety.
macro_rules! like {
    (read $other:literal) => {
        $crate::primitives::like!($other, "Dropping the future has no effect.")
    };
    (change $other:literal $(and $more:literal)?) => {
        $crate::primitives::like!(
            $other and concat!($($more)?),
            "If the future is dropped, the change may or may not have happened."
        )
    };
    (acquire $other:literal and $more:literal) => {
        $crate::primitives::like!(
            $other and $more,
            concat!("As for [`", $other, "`](Self::", $other, ").")
        )
    };
    ($other:literal, $dropped:literal) => {
        $crate::primitives::like!($other and "", $dropped)
    };
    ($other:literal and $more:expr, $dropped:expr) => {
        concat!(
            "\n# Errors\n\nAs for [`",
            $other,
            "`](Self::",
            $other,
            "). ",
            $more,
            "\n\n# Cancel safety\n\n",
            $dropped
        )
    };
}

/// Writes the section *Examples* of an item of the blocking API. `$object` is the code that creates
/// the object.
#[cfg(feature = "blocking")]
macro_rules! thread_example {
    (multi: $($line:expr),+) => {
        $crate::primitives::thread_example!(
            "let lock = client.multi_lock([\"from\", \"to\"])?;": $($line),+)
    };
    (quorum: $($line:expr),+) => {
        $crate::primitives::thread_example!(
            "use leasehold::blocking::QuorumClient; let quorum = QuorumClient::of([client])?; \
             let lock = quorum.lock(\"orders:42\")?;": $($line),+)
    };
    ($object:literal: $($line:expr),+) => {
        concat!(
            "\n# Examples\n\n```\n",
            "# #[allow(unused_imports)] use std::time::Duration;\n",
            "# let client = leasehold::blocking::Client::in_memory()?;\n",
            "# ", $object, "\n",
            $($line, "\n",)+
            "# Ok::<(), leasehold::Error>(())\n```"
        )
    };
}

#[cfg(feature = "blocking")]
pub(crate) use thread_example;
pub(crate) use {example, like};
