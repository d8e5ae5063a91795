//! Methods that several types have, with their documentation.
//!
//! The macros call two methods of a context of work, or of its field `$hold`: `time_left` returns
//! the remaining time or the loss, and `named_loss` waits for the loss. A *group* is a multi-lock
//! or a quorum lock. Its guard has the field `context`, and the method `release_after_run`.

/// Writes `is_held` and `lost`. Each row has the code of the method, in which `self` is called
/// `$it` or `$the`, and an example. `$example` and `$object` make the examples. `$of` is the type
/// parameter of the guard, if the guard has one.
macro_rules! views {
    ($example:ident[$($object:tt)*] $(of $of:ident)?:
        fn is_held() -> bool = |$it:ident| $is_held:expr; $($held:expr),+;
        fn lost() -> $reason:ty = |$the:ident| $loses:expr, $returns:literal; $($lost:expr),+;
    ) => {
        /// Returns whether this client may still rely on the hold. The client concludes this from
        /// its clock and from the last replies of the store.
        #[doc = $example!($($object)* $($held),+)]
        #[must_use]
        pub fn is_held(&self) -> bool {
            let $it = self;
            $is_held
        }

        #[doc = concat!("Waits until the hold has ended. Returns ", $returns)]
        ///
        /// The future does not borrow `self`. When the guard is released or dropped, the future
        /// returns [`LostReason::Released`](crate::LostReason::Released).
        ///
        /// # Cancel safety
        ///
        /// Dropping the future has no effect.
        #[doc = $example!($($object)* $($lost),+)]
        pub fn lost(&self) -> impl Future<Output = $reason> + Send + use<$($of)?> {
            let $the = self;
            $loses
        }
    };
}

/// Writes the methods that a context and the guard of a group have. `$before` and `$after` surround
/// a call in the examples. The function `$result` converts the loss to the result of `lost`.
macro_rules! hold_views {
    ($object:ident[$before:literal, $after:literal] $(.$hold:ident)*:
        $reason:ty = $result:expr, $returns:literal; $($lost:literal),+
    ) => {
        $crate::primitives::views!(example[$object:]:
            fn is_held() -> bool = |it| it$(.$hold)*.time_left().is_ok();
                concat!("assert!(", $before, ".is_held()", $after, ");");
            fn lost() -> $reason = |it| FutureExt::map(it$(.$hold)*.named_loss(), $result),
                $returns; $($lost),+;
        );

        /// Returns how long the hold lasts without another renewal. Returns `None` if the hold has
        /// ended.
        #[doc = example!($object:
            concat!("let left = ", $before, ".remaining()", $after, ";"),
            "assert!(left.is_some_and(|left| left.as_secs() >= 28));")]
        #[must_use]
        pub fn remaining(&self) -> Option<Duration> {
            self$(.$hold)*.time_left().ok()
        }
    };
}

/// Writes the methods of a context of work.
macro_rules! context_views {
    ($object:ident $(.$hold:ident)?, $($lost:tt)+) => {
        $crate::primitives::hold_views!(
            $object["lock.run(async |held| held", ").await?"] $(.$hold)?: $($lost)+
        );

        /// Returns an error if the hold has ended.
        ///
        /// # Errors
        ///
        /// [`Error::Lost`](crate::Error::Lost), with the name of the lost lock, if the hold has
        /// ended.
        #[doc = example!($object: "lock.run(async |held| held.check()).await??;")]
        pub fn check(&self) -> Result<()> {
            let left = self$(.$hold)?.time_left();
            left.map(drop).map_err(|(name, reason)| Error::Lost { name, reason })
        }
    };
}

/// Writes the methods of the guard of a group. `$on_loss` is the setting of the guard, and the
/// sentence `$at_loss` describes what happens to work at a loss.
macro_rules! group_guard {
    ($object:ident $(.$hold:ident)?, $of:ident, $on_loss:expr, $at_loss:literal, $($lost:tt)+) => {
        $crate::primitives::hold_views!(
            $object["lock.acquire().await?", ""] .context$(.$hold)?: $($lost)+
        );

        /// Runs `work` under this guard, releases the guard, and returns the outcome.
        ///
        #[doc = $at_loss]
        /// If the work panics, the guard is released, and the panic continues. The call waits for
        /// the release, but no longer than the longest
        /// [`run_release_wait`](crate::ClientBuilder::run_release_wait) of the clients.
        ///
        /// # Cancel safety
        ///
        /// If the future is dropped, the work is dropped at its current await, and background tasks
        /// release the guard.
        #[doc = example!($object:
            "use leasehold::RunOutcome;",
            "let guard = lock.acquire().await?;",
            "assert_eq!(guard.run(async |_held| 6 * 7).await, RunOutcome::Completed(42));")]
        pub async fn run<T, W, F>(self, work: W) -> RunOutcome<T>
        where
            W: FnOnce($of) -> F,
            F: Future<Output = T>,
        {
            let on_loss: fn(&Self) -> OnLoss = $on_loss;
            let (context, on_loss) = (self.context(), on_loss(&self));
            let lost = context$(.$hold)?.named_loss();
            run::under(context, lost, self.release_after_run(), on_loss, work).await
        }

        /// Returns the context for work under this guard.
        pub(crate) fn context(&self) -> $of {
            self.context.clone()
        }
    };
}

/// Writes the method `run` of a group. The sentence `$at_loss` describes what happens to work at a
/// loss.
macro_rules! group_run {
    ($object:ident, $of:ident, $at_loss:literal) => {
        /// Acquires the lock, runs `work` under it, releases it, and returns the work's result.
        ///
        #[doc = $at_loss]
        ///
        /// # Errors
        ///
        /// The errors of [`acquire`](Self::acquire). If one of these errors occurs, the work did
        /// not start. [`Error::Lost`](crate::Error::Lost), with the name of the lost lock and the
        /// reason, if the hold was lost while the work ran.
        ///
        /// # Cancel safety
        ///
        /// If the future is dropped, the work is dropped at its current await, and background tasks
        /// release the lock.
        #[doc = example!($object: "assert_eq!(lock.run(async |_held| 6 * 7).await?, 42);")]
        pub async fn run<T, W, F>(&self, work: W) -> Result<T>
        where
            W: FnOnce($of) -> F,
            F: Future<Output = T>,
        {
            self.acquire().await?.run(work).await.into_result()
        }
    };
}

pub(crate) use {context_views, group_guard, group_run, hold_views, views};
