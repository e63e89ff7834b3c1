//! `--arch`: which machine the lab emulates.

use clap::builder::PossibleValuesParser;

use vmbell_lab::LabError;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::Board;

/// The values that the option has.
pub(super) fn names() -> PossibleValuesParser {
    Board::ALL.map(|board| board.arch.name).into()
}

/// This machine's architecture, and the board for the named one: by default for this machine's own.
pub(super) fn boards(name: Option<&str>) -> Result<(Arch, Board), LabError> {
    let host = Arch::host();
    let board = Board::of(name.unwrap_or(std::env::consts::ARCH));
    host.zip(board).ok_or(LabError::NoHost {
        arch: std::env::consts::ARCH,
    })
}
