//! The tests that there are, and what each asks of the guest.

use crate::doorbell::{Datamatch, IoEventAddress};

/// The byte that a datamatch test waits for, and that counts without an eventfd.
const MATCH: u8 = 0xfa;
/// The byte that a guest is told to write where any will do.
const ANY: u8 = 0xce;

/// Where the writes of a test go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// BAR0.
    Mmio,
    /// BAR1.
    Port,
}

impl Space {
    /// The space of a BAR that has tests.
    pub(super) const fn of(bar: usize) -> Option<Self> {
        match bar {
            0 => Some(Self::Mmio),
            1 => Some(Self::Port),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Mmio => "mmio",
            Self::Port => "portio",
        }
    }

    /// Offset of the first test's byte: half of the BAR is for the header.
    const fn half(self) -> u64 {
        match self {
            Self::Mmio => super::MMIO_SIZE / 2,
            Self::Port => super::PORT_SIZE / 2,
        }
    }

    /// A place in the BAR that is at `base`.
    pub(super) const fn address(self, base: u64, offset: u64) -> IoEventAddress {
        match self {
            Self::Mmio => IoEventAddress::Mmio(base + offset),
            Self::Port => IoEventAddress::Pio(base + offset),
        }
    }
}

/// How the host hears of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    NoEventfd,
    Wildcard,
    Datamatch,
    Pv,
}

/// Which tests there are on each BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modes {
    /// Three, as in QEMU.
    Mainline,
    /// A fourth one.
    WithPv,
}

const MODES: [Mode; 4] = [Mode::NoEventfd, Mode::Wildcard, Mode::Datamatch, Mode::Pv];

impl Modes {
    const fn count(self) -> u8 {
        match self {
            Self::Mainline => 3,
            Self::WithPv => 4,
        }
    }

    /// The test with this number on a BAR.
    pub(super) fn test(self, space: Space, number: u8) -> Option<Test> {
        if number >= self.count() {
            return None;
        }
        let mode = *MODES.get(usize::from(number))?;
        let index = match space {
            Space::Mmio => number,
            Space::Port => self.count() + number,
        };
        Some(Test {
            space,
            mode,
            index,
            modes: self,
        })
    }
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) space: Space,
    mode: Mode,
    /// Its number among all tests of both BARs.
    pub(super) index: u8,
    modes: Modes,
}

impl Test {
    /// Where the guest is to write: each test has a byte of its own.
    pub(super) fn offset(self) -> u64 {
        self.space.half() + u64::from(self.index)
    }

    /// What it is to write.
    pub(super) const fn data(self) -> u8 {
        match self.mode {
            Mode::NoEventfd | Mode::Datamatch => MATCH,
            Mode::Wildcard | Mode::Pv => ANY,
        }
    }

    /// Whether a write of this byte counts, if it reaches the device.
    pub(super) const fn counts(self, byte: u8) -> bool {
        match self.mode {
            Mode::NoEventfd | Mode::Datamatch => byte == MATCH,
            Mode::Wildcard | Mode::Pv => true,
        }
    }

    /// The doorbell that keeps writes from reaching the device.
    pub(super) const fn doorbell(self) -> Option<Datamatch> {
        match (self.mode, self.space, self.modes) {
            (Mode::NoEventfd, ..) => None,
            (Mode::Datamatch, ..) => Some(Datamatch::U8(Some(MATCH))),
            (Mode::Wildcard, Space::Mmio, Modes::Mainline) | (Mode::Pv, ..) => {
                Some(Datamatch::AnyLength)
            }
            (Mode::Wildcard, ..) => Some(Datamatch::U8(None)),
        }
    }

    /// Its name, as the header has it.
    pub(super) fn name(self) -> String {
        let mode = match self.mode {
            Mode::NoEventfd => "no-eventfd",
            Mode::Wildcard => "wildcard-eventfd",
            Mode::Datamatch => "datamatch-eventfd",
            Mode::Pv => "pv-eventfd",
        };
        format!("{}-{mode}", self.space.name())
    }
}
