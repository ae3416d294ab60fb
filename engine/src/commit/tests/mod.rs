//! Golden cases of the deciders of the write path.

mod replay;
