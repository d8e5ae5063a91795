//! Macros that generate methods for threads from a table. Each method waits for the method of the
//! same name for tasks. A row is a signature and an example.

/// Methods of a type that has the object for tasks in `inner`, and its `core`. `, guard` makes the
/// guard for threads with the method `guard` of that type, and `=> guard` does so if a guard was
/// returned. `$object` sets up the examples.
macro_rules! waits {
    ($of:ident, $object:literal:
        $(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $(, $wrap:ident)? $(=> $maybe:ident)?;
            $($example:literal)+)+
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
            $(let returned = returned.map(|returned| self.$maybe(returned));)?
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

/// The same for settings.
macro_rules! sets {
    ($of:ident, $object:literal:
        $(fn $name:ident($arg:ident: $type:ty); $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Does what [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ") does.")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        #[must_use]
        pub fn $name(self, $arg: $type) -> Self {
            Self { inner: self.inner.$name($arg), ..self }
        }
    )+};
}

/// The same for methods that consume a guard. If a task calls one, a background task does `$instead`.
macro_rules! ends {
    ($of:ident, $object:literal, $instead:literal:
        $(fn $name:ident($($arg:ident: $type:ty),*); $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Blocks for [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ").")]
        ///
        /// # Errors
        ///
        /// As there. [`Error::InsideAsync`](crate::Error::InsideAsync) if a task calls it; then a
        #[doc = concat!("background task ", $instead, ".")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn $name(self, $($arg: $type),*) -> Result<Release> {
            let Self { inner, core } = self;
            core.wait(inner.$name($($arg),*))?
        }
    )+};
}

pub(super) use {ends, returns, sets, waits};
