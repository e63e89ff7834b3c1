use vmm_sys_util::eventfd::EventFd;

use super::*;
use vmbell::irq::{ForwardedLine, IrqError, Msi, Route};
use vmbell_hypervisor::Irqfd;

/// Remembers the levels that were set, and refuses levels of lines above [`LAST`].
#[derive(Default)]
struct Levels(Mutex<Vec<(u32, bool)>>);

const LAST: u32 = 20;

impl Irqs for Levels {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        _: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        Ok(Irqfd::new(event, gsi, None, |_| Ok(())))
    }

    fn set_routing(&self, _: &[Route]) -> Result<(), Error> {
        Ok(())
    }

    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error> {
        if gsi.number() > LAST {
            return Err(IrqError::NoIrqchip.into());
        }
        self.0.lock().push((gsi.number(), level));
        Ok(())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, Error> {
        Ok(false)
    }
}

fn read<const N: usize>(device: &dyn BusDevice, offset: u64) -> [u8; N] {
    let mut data = [0xaa; N];
    device.read(offset, &mut data);
    data
}

#[test]
fn latch_keeps_each_byte_at_any_width() {
    let latch = TestLatch::default();
    assert_eq!(read(&latch, 0), [0; 4]);
    latch.write(0, &0x4433_2211_u32.to_le_bytes());
    latch.write(1, &[0xff]);
    latch.write(2, &[0x55, 0x66]);
    assert_eq!(read(&latch, 0), [0x11, 0xff, 0x55, 0x66]);
    assert_eq!(read(&latch, 2), [0x55, 0x66]);
    assert_eq!(read(&latch, 3), [0x66]);
}

#[test]
fn latch_and_memory_end_where_they_end() {
    let latch = TestLatch::default();
    latch.write(3, &[1, 2]);
    latch.write(u64::MAX, &[3]);
    assert_eq!(read(&latch, 3), [1, 0xff]);
    assert_eq!(read(&latch, u64::MAX), [0xff]);
    let memory = TestMemory::default();
    memory.write(TEST_MEMORY_LEN - 1, &[1, 2]);
    memory.write(u64::MAX, &[3]);
    assert_eq!(read(&memory, TEST_MEMORY_LEN - 1), [1, 0xff]);
    assert_eq!(read(&memory, 0), [0; 8]);
}

#[test]
fn memory_keeps_eight_bytes_at_any_place() {
    let memory = TestMemory::default();
    memory.write(0xffd, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(read(&memory, 0xffe), [2, 3, 4, 5, 6, 7, 8, 0]);
}

#[test]
fn any_value_but_zero_is_the_upper_level() {
    let levels = Arc::new(Levels::default());
    let lines = TestLines::new(levels.clone(), |error| panic!("{error}"));
    lines.write(14, &[1]);
    lines.write(14, &[0]);
    lines.write(0, &[0x80]);
    assert_eq!(*levels.0.lock(), [(14, true), (14, false), (0, true)]);
    assert_eq!(read(&lines, 14), [0xff; 2]);
}

#[test]
fn each_byte_of_a_wide_write_is_for_a_line_of_its_own() {
    let levels = Arc::new(Levels::default());
    let errors = Arc::new(AtomicU8::new(0));
    let counted = Arc::clone(&errors);
    let lines = TestLines::new(levels.clone(), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    lines.write(4, &[1, 0, 2, 0]);
    let expected = [(4, true), (5, false), (6, true), (7, false)];
    assert_eq!(*levels.0.lock(), expected);
    lines.write(u64::MAX, &[1]);
    lines.write(TEST_LINES, &[1]);
    assert_eq!(errors.load(Ordering::Relaxed), 0, "there are no such lines");
    lines.write(u64::from(LAST) + 1, &[1]);
    assert_eq!(errors.load(Ordering::Relaxed), 1, "a refusal is reported");
}

#[test]
fn flush_takes_four_bytes_and_gives_the_page() {
    let pages = Mutex::new(Vec::new());
    let flush = TestFlush::new(|page| pages.lock().push(page));
    flush.write(0, &0x1234_5678_u32.to_le_bytes());
    flush.write(0, &u32::MAX.to_le_bytes());
    flush.write(0, &[0x00, 0x10]);
    flush.write(1, &[0; 4]);
    assert_eq!(read(&flush, 0), [0xff; 4]);
    assert_eq!(*pages.lock(), [0x1234_5000, 0xffff_f000]);
}
