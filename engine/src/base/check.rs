//! Checks of the engine's own state. Bytes from disk and from users are checked with errors. A
//! condition that only a bug can break is asserted: always if the check is cheap, otherwise in
//! builds with debug assertions only.

/// Asserts a condition whose check is costly, in builds with debug assertions only. The first
/// argument names the invariant, such as `"I6"`.
#[macro_export]
#[doc(hidden)]
macro_rules! costly_check {
    ($invariant:literal, $condition:expr, $($message:tt)+) => {
        if cfg!(debug_assertions) {
            assert!($condition, "{} broken: {}", $invariant, format_args!($($message)+));
        }
    };
}
