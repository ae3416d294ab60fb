//! Checks of our own state. Bytes from disk and from users get errors; what only a bug can break
//! is asserted: always where it is cheap, in test builds where it is not.

/// Asserts something costly about our own state, in builds with debug assertions only. The first
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
