//! Guards that keep panics from crossing into C, where they would end the host process. A panic
//! becomes an error message if the call has an `errptr`, else the call returns its empty value.

use crate::border::ErrPtr;
use engine::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that has no `errptr`. Returns `nothing` if it fails or panics.
#[inline]
pub fn quiet<T>(nothing: T, body: impl FnOnce() -> Result<T>) -> T {
    // Unwind safety: the engine's locks guard its state and detect a panic.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => nothing,
    }
}

/// Runs a call that reports errors through `errptr`. Returns `nothing` if it fails or panics.
#[inline]
pub fn telling<T>(errptr: ErrPtr, nothing: T, body: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            errptr.set(&error);
            nothing
        }
        Err(_) => {
            errptr.set(&panicked());
            nothing
        }
    }
}

#[cold]
fn panicked() -> Error {
    Error::internal("this is a defect of CleaveDB: a call panicked")
        .advise("close the database, and report what standard error says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(quiet(7, || panic!("caught on purpose")), 7);
        assert_eq!(quiet(7, || Err(Error::invalid_argument("no"))), 7);
        assert_eq!(quiet(7, || Ok(8)), 8);
    }
}
