//! The image's command line: words separated by one or more spaces, as in Linux.
//!
//! Unknown words are ignored: a VMM adds its own.

/// The maximum number of batches of a row.
pub const MAX_BATCHES: u32 = 64;
/// The maximum number of operations in a batch.
pub const MAX_OPERATIONS: u32 = 1_000_000;

/// What the command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// Operations in a batch.
    pub operations: u32,
    /// Batches of each row.
    pub batches: u32,
    /// Bracket each batch with writes to port 0x80, for a trace of the host.
    pub mark: bool,
    /// Leave out what can end a weak VMM.
    pub safe: bool,
    /// Leave out the hypercall.
    pub no_hypercall: bool,
    /// Switch to x2APIC mode at the start.
    pub x2apic: bool,
    /// Print the name of each row before it runs.
    pub verbose: bool,
    /// The rows to run, separated by commas; empty means all.
    pub only: Option<&'a str>,
    /// Run the rows in the random order of this seed; 0 is the order of the table.
    pub order: u32,
}

/// Returns the line up to the first byte that is not text: a VMM may have put anything after its words, or may have
/// truncated them.
pub fn text(bytes: &[u8]) -> &str {
    let end = core::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    core::str::from_utf8(&bytes[..end]).unwrap_or("")
}

impl<'a> Options<'a> {
    /// Reads the options from a command line.
    pub fn parse(line: &'a str) -> Self {
        let mut options = Self {
            operations: 100,
            batches: 5,
            mark: false,
            safe: false,
            no_hypercall: false,
            x2apic: false,
            verbose: false,
            only: None,
            order: 0,
        };
        for word in words(line) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("ops", value) => set(&mut options.operations, value, MAX_OPERATIONS),
                ("batches", value) => set(&mut options.batches, value, MAX_BATCHES),
                ("only", value) => options.only = Some(value),
                ("order", value) => set(&mut options.order, value, u32::MAX),
                ("mark", "") => options.mark = true,
                ("safe", "") => options.safe = true,
                ("nohypercall", "") => options.no_hypercall = true,
                ("x2apic", "") => options.x2apic = true,
                ("verbose", "") => options.verbose = true,
                _ => {}
            }
        }
        options
    }

    /// Returns whether a row is requested.
    pub fn wants(&self, row: &str) -> bool {
        self.only
            .is_none_or(|names| names.split(',').any(|name| name == row))
    }
}

/// The device that a sweep uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepDevice {
    /// The disk.
    Blk,
    /// The entropy device.
    Rng,
    /// The network card, which sends frames.
    Net,
}

/// How the image waits for an answer in a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepWait {
    /// The image reads the used index in a loop.
    Poll,
    /// The image halts, and its own timer wakes it to read the used index.
    Timer,
    /// The image halts until the device interrupts.
    Interrupt,
}

/// The traffic of `vmbell sweep`, instead of rows: the words `sweep=DEVICE`, `wait=`, `eventidx`, `packed`, `inflight=N`,
/// `bound=US`, `tick=US` and `step=N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// The device.
    pub device: SweepDevice,
    /// How the image waits.
    pub wait: SweepWait,
    /// Whether it asks for EVENT_IDX.
    pub event_idx: bool,
    /// Whether it asks for a packed ring.
    pub packed: bool,
    /// The maximum number of requests in flight.
    pub in_flight: u32,
    /// The microseconds after which an answer is missing.
    pub bound_us: u32,
    /// The microseconds between two looks of a CPU that halts.
    pub tick_us: u32,
    /// The number of answers for each printed step.
    pub step: u32,
}

impl SweepOptions {
    /// Reads the options from a command line; `None` if it asks for no sweep, or for one with an unknown device.
    pub fn parse(line: &str) -> Option<Self> {
        let device = words(line).find_map(|word| match word.strip_prefix("sweep=")? {
            "blk" => Some(SweepDevice::Blk),
            "rng" => Some(SweepDevice::Rng),
            "net" => Some(SweepDevice::Net),
            _ => None,
        })?;
        let mut options = Self {
            device,
            wait: SweepWait::Poll,
            event_idx: false,
            packed: false,
            in_flight: 1,
            bound_us: 100_000,
            tick_us: 1000,
            step: 1,
        };
        const MOST_US: u32 = 10_000_000;
        for word in words(line) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("wait", "poll") => options.wait = SweepWait::Poll,
                ("wait", "timer") => options.wait = SweepWait::Timer,
                ("wait", "interrupt") => options.wait = SweepWait::Interrupt,
                ("eventidx", "") => options.event_idx = true,
                ("packed", "") => options.packed = true,
                ("inflight", value) => set(&mut options.in_flight, value, 8),
                ("bound", value) => set(&mut options.bound_us, value, MOST_US),
                ("tick", value) => set(&mut options.tick_us, value, MOST_US),
                ("step", value) => set(&mut options.step, value, u32::MAX),
                _ => {}
            }
        }
        Some(options)
    }
}

/// The places 0 to N - 1 in the order of a seed; seed 0 keeps their order.
pub fn order<const N: usize>(seed: u32) -> [usize; N] {
    let mut places = core::array::from_fn(|place| place);
    let mut state = seed;
    for place in (1..N).rev().take_while(|_| seed != 0) {
        // Marsaglia's xorshift32.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        places.swap(place, state as usize % (place + 1));
    }
    places
}

/// Sets an option to a number from 1 to `most`; anything else leaves the option unchanged.
fn set(option: &mut u32, value: &str, most: u32) {
    if let Some(number) = number(value) {
        let most = u64::from(most);
        *option = u32::try_from(number.clamp(1, most)).unwrap_or(*option);
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_ascii_whitespace()
}

/// Parses a number in C's notation: decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A virtio-mmio device that the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioDevice {
    /// The guest-physical address of the device's registers.
    pub address: u64,
    /// The GSI of the device's interrupt.
    pub gsi: u32,
}

/// The devices of `virtio_mmio.device=<size>[KMG]@<address>:<irq>[:<id>]`, as in Linux's
/// `drivers/virtio/virtio_mmio.c`. Malformed devices are left out.
pub fn mmio_devices(line: &str) -> impl Iterator<Item = MmioDevice> {
    words(line).filter_map(|word| {
        let (_, place) = word.strip_prefix("virtio_mmio.device=")?.split_once('@')?;
        let mut parts = place.split(':');
        Some(MmioDevice {
            address: number(parts.next()?)?,
            gsi: u32::try_from(number(parts.next()?)?).ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        MmioDevice, Options, SweepDevice, SweepOptions, SweepWait, mmio_devices, order, text,
    };

    #[test]
    fn a_plain_line_has_the_defaults() {
        let options = Options::parse("probe.elf console=ttyS0");
        assert_eq!((options.operations, options.batches), (100, 5));
        assert!(options.wants("cpuid") && !options.safe && !options.mark);
    }

    #[test]
    fn every_word_is_known() {
        let options =
            Options::parse("ops=7  batches=0x3 mark safe nohypercall x2apic verbose only=a,b");
        assert_eq!((options.operations, options.batches), (7, 3));
        assert!(options.mark && options.safe && options.no_hypercall);
        assert!(options.x2apic && options.verbose);
        assert!(options.wants("a") && options.wants("b"));
        assert!(!options.wants("ab") && !options.wants(""));
    }

    #[test]
    fn a_sweep_needs_a_device() {
        assert_eq!(SweepOptions::parse("wait=timer eventidx"), None);
        assert_eq!(SweepOptions::parse("sweep=gpu"), None);
        let sweep = SweepOptions::parse("a sweep=rng").unwrap();
        assert_eq!(
            (sweep.device, sweep.wait),
            (SweepDevice::Rng, SweepWait::Poll)
        );
        assert_eq!((sweep.in_flight, sweep.event_idx), (1, false));
        let line = "sweep=blk wait=interrupt eventidx packed inflight=99 bound=5 tick=6 step=7";
        let sweep = SweepOptions::parse(line).unwrap();
        assert_eq!(
            (sweep.device, sweep.wait),
            (SweepDevice::Blk, SweepWait::Interrupt)
        );
        assert!(sweep.event_idx && sweep.packed);
        assert_eq!(
            [sweep.in_flight, sweep.bound_us, sweep.tick_us, sweep.step],
            [8, 5, 6, 7]
        );
    }

    #[test]
    fn a_seed_shuffles_the_places_and_none_leaves_them() {
        assert_eq!(order::<9>(0), core::array::from_fn(|place| place));
        let shuffled = [1, 2, 3].map(order::<40>);
        for mut places in shuffled {
            assert_ne!(places, order::<40>(0));
            places.sort_unstable();
            assert_eq!(places, order::<40>(0));
        }
        assert_ne!(shuffled[0], shuffled[1]);
        assert_eq!(Options::parse("order=7").order, 7);
        assert_eq!(Options::parse("").order, 0);
    }

    #[test]
    fn numbers_stay_within_what_the_image_has_room_for() {
        let options = Options::parse("ops=0 batches=99999999999");
        assert_eq!((options.operations, options.batches), (1, 64));
        let options = Options::parse("ops=-1 batches=x");
        assert_eq!((options.operations, options.batches), (100, 5));
    }

    #[test]
    fn what_is_no_text_ends_the_line() {
        assert_eq!(text(b"safe ops=1 \xff only=a"), "safe ops=1 ");
        assert_eq!(text("safe \u{e9}".as_bytes()), "safe \u{e9}");
        assert_eq!(text(&"safe \u{e9}".as_bytes()[..6]), "safe ");
        assert_eq!(text(b"\xff"), "");
    }

    #[test]
    fn devices_are_found_as_linux_finds_them() {
        let line = "a virtio_mmio.device=4K@0xd0000000:5 virtio_mmio.device=512@0xfeb00e00:12:3";
        let found: [_; 2] = core::array::from_fn(|index| mmio_devices(line).nth(index));
        let device = |address, gsi| Some(MmioDevice { address, gsi });
        assert_eq!(found, [device(0xd000_0000, 5), device(0xfeb0_0e00, 12)]);
    }

    #[test]
    fn malformed_devices_are_left_out() {
        for line in [
            "virtio_mmio.device=",
            "virtio_mmio.device=4K",
            "virtio_mmio.device=4K@0xd0000000",
            "virtio_mmio.device=4K@:5",
            "virtio_mmio.device=4K@0xfffffffffffffffff:5",
            "virtio_mmio.device=4K@0xd0000000:99999999999",
        ] {
            assert_eq!(mmio_devices(line).count(), 0, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in ".{0,200}") {
            let options = Options::parse(&line);
            prop_assert!((1..=64).contains(&options.batches));
            let _ = (mmio_devices(&line).count(), SweepOptions::parse(&line));
        }
    }
}
