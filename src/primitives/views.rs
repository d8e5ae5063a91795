//! Methods that read a hold. The guards and the contexts of several locks have them.

/// Writes methods that delegate to the field `$hold`. `$example` and `$object` make the examples.
/// `$of` is the type parameter of the guard, if it has one.
macro_rules! views {
    ($hold:ident, $example:ident[$($object:tt)*]:
        fn is_held() -> bool; $($held:literal),+;
        fn remaining() -> Option<Duration>; $($left:literal),+;
        fn lost() -> $reason:ty, $returns:literal; $($lost:literal),+;
    ) => {
        $crate::primitives::views! { $hold, $example[$($object)*]:
            fn is_held() -> bool; $($held),+;
            fn lost() -> $reason, $returns; $($lost),+;
        }

        /// Returns how long the hold lasts without another renewal. `None` if it has ended.
        #[doc = $example!($($object)* $($left),+)]
        #[must_use]
        pub fn remaining(&self) -> Option<Duration> {
            self.$hold.remaining()
        }
    };
    ($hold:ident $(of $of:ident)?, $example:ident[$($object:tt)*]:
        fn is_held() -> bool; $($held:literal),+;
        fn lost() -> $reason:ty, $returns:literal; $($lost:literal),+;
    ) => {
        /// Returns whether this client may still rely on the hold, according to the clock of this
        /// process and the last replies.
        #[doc = $example!($($object)* $($held),+)]
        #[must_use]
        pub fn is_held(&self) -> bool {
            self.$hold.remaining().is_some()
        }

        #[doc = concat!("Waits until the hold has ended. Returns ", $returns)]
        ///
        /// The future borrows nothing. When the guard is released or dropped, the future returns
        /// [`LostReason::Released`](crate::LostReason::Released).
        ///
        /// # Cancel safety
        ///
        /// Dropping the future has no effect.
        #[doc = $example!($($object)* $($lost),+)]
        pub fn lost(&self) -> impl Future<Output = $reason> + Send + use<$($of)?> {
            self.$hold.lost()
        }
    };
}

pub(crate) use views;
