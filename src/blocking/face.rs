//! Macros that generate methods for threads from a table. Each method waits for the method of the
//! same name for tasks. A row is a signature and an example.

/// Methods of a type that has the object for tasks in `inner`, and its `core`. `$wrap` is a method
/// of it that makes a guard for threads. `$object` sets up the examples.
macro_rules! waits {
    ($of:ident, $object:literal:
        $(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $(, $wrap:ident)?; $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Blocks for [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ").")]
        ///
        /// # Errors
        ///
        /// As there. [`Error::InsideAsync`](crate::Error::InsideAsync) if a task calls it.
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn $name(&self, $($arg: $type),*) -> Result<$out> {
            let returned = self.core.wait(self.inner.$name($($arg),*))??;
            $(let returned = self.$wrap(returned);)?
            Ok(returned)
        }
    )+};
}

/// The same for methods that do not wait.
macro_rules! returns {
    ($of:ident, $object:literal:
        $(fn $name:ident() -> $out:ty; $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Returns what [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ") returns.")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        #[must_use]
        pub fn $name(&self) -> $out {
            self.inner.$name()
        }
    )+};
}

pub(super) use {returns, waits};
