//! No panic crosses the border: it would end the host. It becomes an error message where the call
//! has a place for one, and the call's answer for "nothing" where it has none.

use crate::border::ErrPtr;
use engine::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that can't tell of errors.
#[inline]
pub fn quiet<T>(nothing: T, body: impl FnOnce() -> Result<T>) -> T {
    // The engine's own state is guarded by its locks, which notice a panic.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => nothing,
    }
}

/// Runs a call that tells of errors through `errptr`.
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
