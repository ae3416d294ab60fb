//! The library as C sees it: programs that use it, symbols that it exports, and what it prints in
//! LevelDB's place.

mod header_symbols;
mod programs;
mod same_output;
mod support;
