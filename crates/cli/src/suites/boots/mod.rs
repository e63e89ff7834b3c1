//! Compares VMMs: columns, each a VMM with a guest, are booted in turns, counted and shown.
//!
//! `bench vmms` and `bench net` define the columns ([`BootWay`]) and what one boot of a column gives ([`BootResult`]).
//! `run` boots the columns and makes the report; `rows` makes its rows from the results.

pub(crate) mod args;
mod column;
mod ended;
mod rows;
mod run;

pub(crate) use self::column::{
    BatchTimes, BootColumn, BootResult, BootRow, BootWay, CountedBatch, CountedRows, VmmFailure,
};
pub(crate) use self::ended::{in_words, keep, last_words, version_of};
pub(crate) use self::run::{BootPlan, BootsRun};
