//! `cleave doctor` and `cleave report`: what is known of a database, and what is unusual about it.
//!
//! [`facts`] gathers what the process that has it open says, or what an opening of our own finds.
//! [`rules`] are pure functions from facts to findings.

pub(crate) mod facts;
pub(crate) mod rules;
#[cfg(test)]
mod tests;
