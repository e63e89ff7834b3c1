//! The tests of the device, and what each requires of the guest.

use vmbell::doorbell::{Datamatch, IoEventAddress};

/// Bytes of BAR0.
pub(super) const MMIO_SIZE: u64 = 4096;
/// Ports of BAR1.
pub(super) const PORT_SIZE: u64 = 256;

/// The datamatch of the datamatch test, and the byte that the test without an eventfd counts.
const MATCH: u8 = 0xfa;
/// The byte that the header makes a guest write for a wildcard.
const ANY: u8 = 0xce;

/// The BAR that the writes of a test go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// BAR0.
    Mmio,
    /// BAR1.
    Port,
}

impl Space {
    /// The space of BAR `bar`; `None` if the BAR has no tests.
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

    /// Offset of the first test's byte: the lower half of the BAR is for the header.
    const fn half(self) -> u64 {
        match self {
            Self::Mmio => MMIO_SIZE / 2,
            Self::Port => PORT_SIZE / 2,
        }
    }

    /// The address of an offset in the BAR, if the BAR is mapped at `base`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a BAR of ports ends at 0xffff"
    )]
    pub(super) const fn address(self, base: u64, offset: u64) -> IoEventAddress {
        match self {
            Self::Mmio => IoEventAddress::Mmio(base + offset),
            Self::Port => IoEventAddress::Pio((base + offset) as u16),
        }
    }
}

/// The kind of a test: its doorbell, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    NoEventfd,
    Wildcard,
    Datamatch,
    Pv,
}

/// The set of tests on each BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modes {
    /// Three tests, as in QEMU.
    Mainline,
    /// Four tests: `pv-eventfd` as well.
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

    /// The test with this number on a BAR; `None` if there is no such test.
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
    /// The test's number among the tests of both BARs.
    pub(super) index: u8,
    modes: Modes,
}

impl Test {
    /// The offset to which the guest must write: each test has its own byte.
    pub(super) fn offset(self) -> u64 {
        self.space.half() + u64::from(self.index)
    }

    /// The byte that the guest must write.
    pub(super) const fn data(self) -> u8 {
        match self.mode {
            Mode::NoEventfd | Mode::Datamatch => MATCH,
            Mode::Wildcard | Mode::Pv => ANY,
        }
    }

    /// Whether a write of this byte is counted if it reaches the device.
    pub(super) const fn counts(self, byte: u8) -> bool {
        match self.mode {
            Mode::NoEventfd | Mode::Datamatch => byte == MATCH,
            Mode::Wildcard | Mode::Pv => true,
        }
    }

    /// The doorbell that keeps writes from reaching the device, if the test has a doorbell.
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

    /// The test's name, for the header.
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
