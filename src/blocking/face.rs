//! Macros that generate methods of the blocking API from a table. Each method blocks until the
//! async method of the same name returns. A row of the table is a signature and an example.

/// Writes methods that block. The blocking type has the async object in its field `inner`, and the
/// runtime in its field `core`. If a row ends with `, guard`, the method `guard` of the blocking
/// type converts the returned async guard. With `=> guard`, it converts the guard inside an
/// `Option`. `$object` is the code that creates the object in the examples.
macro_rules! waits {
    ($of:ident, $object:tt:
        $(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $(, $wrap:ident)? $(=> $maybe:ident)?;
            $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Blocks until [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ") returns, and returns its result.")]
        ///
        /// # Errors
        ///
        /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if
        /// a task of an async runtime calls this method.
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn $name(&self, $($arg: $type),*) -> Result<$out> {
            let returned = self.core.wait(self.inner.$name($($arg),*))??;
            $(let returned = self.$wrap(returned);)?
            $(let returned = returned.map(|returned| self.$maybe(returned));)?
            Ok(returned)
        }
    )+};
}

/// Implements `Clone` and `Debug` for an object with the fields `core` and `inner`. `derive` would
/// do so only if the element types `$of` implement these traits.
macro_rules! shares {
    ($type:ident<$($of:ident),+; $($codec:ident),+>) => {
        impl<$($of,)+ $($codec: Clone),+> Clone for $type<$($of,)+ $($codec),+> {
            fn clone(&self) -> Self {
                Self { core: Arc::clone(&self.core), inner: self.inner.clone() }
            }
        }

        $crate::blocking::face::shows! { $type<$($of),+; $($codec),+> }
    };
}

/// Implements `Debug` for an object, with the output of its field `inner`.
macro_rules! shows {
    ($type:ident<$($of:ident),+; $($codec:ident),+>) => {
        impl<$($of,)+ $($codec: fmt::Debug),+> fmt::Debug for $type<$($of,)+ $($codec),+> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

/// Writes methods that do not block, and return what the async method returns.
macro_rules! returns {
    ($of:ident, $object:tt:
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

/// Writes methods that do not block, and may fail. If a row ends with `, new`, the function `new`
/// of the returned type converts the async object.
macro_rules! makes {
    ($of:ident, $object:literal:
        $(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $(, $wrap:ident)?;
            $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Does what [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ") does.")]
        ///
        /// # Errors
        ///
        /// The errors of the async method.
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn $name(&self, $($arg: $type),*) -> Result<$out> {
            let made = self.inner.$name($($arg),*)?;
            $(let made = <$out>::$wrap(Arc::clone(&self.core), made);)?
            Ok(made)
        }
    )+};
}

/// Writes the type of a stream, or the method `stream` that creates the stream.
macro_rules! streams {
    ($type:ident<$($item:ident: $codec:ident),+>, $object:literal; $($example:literal)+) => {
        #[doc = concat!("A [`", stringify!($type), "`](crate::", stringify!($type),
            ") for threads.")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        #[must_use = "a stream sends no request until `next` is called"]
        pub struct $type<$($item,)+ $($codec = Text),+> {
            core: Arc<Core>,
            inner: primitives::$type<$($item,)+ $($codec),+>,
        }

        $crate::blocking::face::shows! { $type<$($item),+; $($codec),+> }
    };
    ($of:ident, $object:literal:
        fn stream() -> $type:ident<$($parameter:ident),+>; $($example:literal)+
    ) => {
        #[doc = concat!("Does what [`", stringify!($of), "::stream`](crate::", stringify!($of),
            "::stream) does.")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn stream(&self) -> $type<$($parameter),+> {
            $type { core: Arc::clone(&self.core), inner: self.inner.stream() }
        }
    };
}

/// Writes the blocking method `next` of a stream.
macro_rules! nexts {
    ($of:ident, $object:literal: fn next() -> $out:ty; $($example:literal)+) => {
        #[doc = concat!("Blocks until [`", stringify!($of), "::next`](crate::", stringify!($of),
            "::next) returns, and returns its result.")]
        ///
        /// # Errors
        ///
        /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if
        /// a task of an async runtime calls this method.
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        #[expect(clippy::should_implement_trait, reason = "`next` can fail, and then continue")]
        pub fn next(&mut self) -> Result<Option<$out>> {
            self.core.wait(self.inner.next())?
        }
    };
}

/// Writes settings: methods that consume and return the object. A row with type parameters, such as
/// `fn codec<C>(…) -> Map<…>`, returns an object of another type.
macro_rules! sets {
    ($of:ident, $object:tt:
        $(fn $name:ident<$($new:ident $(: $bound:ident)?),+>($($arg:ident: $type:ty),+) -> $out:ty;
            $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Does what [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ") does.")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        #[must_use]
        pub fn $name<$($new $(: $bound)?),+>(self, $($arg: $type),+) -> $out {
            $of { core: self.core, inner: self.inner.$name($($arg),+) }
        }
    )+};
    ($of:ident, $object:tt:
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

/// Writes methods that block and consume a guard. If a task of an async runtime calls such a
/// method, a background task ends the hold. In the docs, `$instead` says what the task does.
macro_rules! ends {
    ($of:ident, $object:tt, $instead:literal:
        $(fn $name:ident($($arg:ident: $type:ty),*); $($example:literal)+)+
    ) => {$(
        #[doc = concat!("Blocks until [`", stringify!($of), "::", stringify!($name), "`](crate::",
            stringify!($of), "::", stringify!($name), ") returns, and returns its result.")]
        ///
        /// # Errors
        ///
        /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if
        /// a task of an async runtime calls this method. After `InsideAsync`, a
        #[doc = concat!("background task ", $instead, ".")]
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn $name(self, $($arg: $type),*) -> Result<Release> {
            let Self { inner, core } = self;
            core.first().wait(inner.$name($($arg),*))?
        }
    )+};
}

/// Writes the method `lost` of a guard, which blocks until the hold has ended.
macro_rules! loses {
    ($of:ident, $object:tt: fn lost() -> $out:ty; $($example:literal)+) => {
        #[doc = concat!("Blocks until [`", stringify!($of), "::lost`](crate::", stringify!($of),
            "::lost) returns, and returns its result.")]
        ///
        /// # Errors
        ///
        /// [`Error::InsideAsync`](crate::Error::InsideAsync) if a task of an async runtime calls
        /// this method.
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn lost(&self) -> Result<$out> {
            self.core.first().wait(self.inner.lost())
        }
    };
}

/// Writes the method `run` of an object (`&self`), or of its guard (`self`).
macro_rules! runs {
    ($of:ident, $object:tt: fn run(&self) -> $context:ty; $($example:literal)+) => {
        #[doc = concat!("Does what [`", stringify!($of), "::run`](crate::", stringify!($of),
            "::run) does, but a loss does not stop the work.")]
        ///
        /// # Errors
        ///
        /// The errors of [`acquire`](Self::acquire), and [`Error::Lost`](crate::Error::Lost) if the
        /// hold was lost while the work ran.
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn run<T>(&self, work: impl FnOnce(&$context) -> T) -> Result<T> {
            self.acquire()?.run(work).into_result()
        }
    };
    ($of:ident, $object:tt: fn run(self) -> $context:ty; $($example:literal)+) => {
        #[doc = concat!("Does what [`", stringify!($of), "::run`](crate::", stringify!($of),
            "::run) does, but a loss does not stop the work.")]
        ///
        /// The method never returns [`RunOutcome::Cancelled`](crate::RunOutcome::Cancelled).
        #[doc = $crate::primitives::thread_example!($object: $($example),+)]
        pub fn run<T>(self, work: impl FnOnce(&$context) -> T) -> RunOutcome<T> {
            let Self { inner, core } = self;
            core.first().run(&inner.context(), work, inner.release_after_run())
        }
    };
}

/// Writes the methods that acquire a group: a multi-lock or a quorum lock.
macro_rules! acquires {
    ($of:ident, $guard:ident, $context:ty, $object:ident) => {
        $crate::blocking::face::tables! { $object:
            waits $of {
                fn acquire() -> $guard, guard; "let guard = lock.acquire()?;"
                fn acquire_within(timeout: Duration) -> $guard, guard;
                    "let guard = lock.acquire_within(Duration::from_secs(5))?;"
                fn try_acquire() -> Option<$guard> => guard;
                    "assert!(lock.try_acquire()?.is_some());"
            }
            runs $of {
                fn run(&self) -> $context;
                    "assert_eq!(lock.run(|held| held.check().map(|()| 6 * 7))??, 42);"
            }
        }

        fn guard(&self, inner: $crate::$guard) -> $guard {
            $guard { inner, core: self.core.clone() }
        }
    };
}

/// Writes the type of the guard of a group.
macro_rules! guards {
    ($guard:ident, $object:ident) => {
        #[doc = concat!("A [`", stringify!($guard), "`](crate::", stringify!($guard),
                            ") for threads. It can move to another thread.")]
        #[doc = $crate::primitives::thread_example!($object:
                            "let guard = lock.acquire()?;",
                            "assert!(std::thread::spawn(move || guard.release()).join().is_ok());")]
        #[derive(Debug)]
        #[must_use = "what the guard holds is released as soon as the guard is dropped"]
        pub struct $guard {
            // This field must come before `core`, so that Rust drops it first. Its drop starts the
            // releases, which the runtime threads still complete after the drop of `core`.
            inner: $crate::$guard,
            core: Cores,
        }
    };
}

/// Writes methods of the guard of a group.
macro_rules! holds {
    ($of:ident, $context:ty, $object:ident) => {
        $crate::blocking::face::tables! { $object:
            returns $of {
                fn is_held() -> bool; "assert!(lock.acquire()?.is_held());"
                fn remaining() -> Option<Duration>;
                    "assert!(lock.acquire()?.remaining().is_some_and(|left| left.as_secs() >= 28));"
            }
            runs $of {
                fn run(self) -> $context;
                    "assert!(lock.acquire()?.run(|held| held.is_held()).into_result()?);"
            }
        }
    };
}

/// Calls several macros with the same `$object`. A table has the form `waits Lock { … }` instead of
/// `waits! { Lock, "let lock = …;": … }`.
macro_rules! tables {
    ($object:tt: $($table:ident $of:ident $(, $instead:literal)? { $($row:tt)+ })+) => {$(
        $crate::blocking::face::$table! { $of, $object $(, $instead)?: $($row)+ }
    )+};
}

pub(super) use {
    acquires, ends, guards, holds, loses, makes, nexts, returns, runs, sets, shares, shows,
    streams, tables, waits,
};

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use crate::blocking;

    /// A type for elements, keys and values. It implements neither `Clone` nor `Debug`.
    enum Job {}

    fn object<T: Clone + Debug>() {}

    fn stream<T: Debug>() {}

    /// With `derive(Clone, Debug)`, these types would have both traits only if `Job` had them, too.
    /// So the types implement both traits by hand.
    #[test]
    fn objects_can_be_cloned_even_if_their_elements_cannot() {
        object::<crate::Map<Job, Job>>();
        object::<crate::Set<Job>>();
        object::<crate::Queue<Job>>();
        object::<blocking::Map<Job, Job>>();
        object::<blocking::Set<Job>>();
        object::<blocking::Queue<Job>>();
        stream::<crate::MapStream<Job, Job>>();
        stream::<crate::SetStream<Job>>();
        stream::<blocking::MapStream<Job, Job>>();
        stream::<blocking::SetStream<Job>>();
    }
}
