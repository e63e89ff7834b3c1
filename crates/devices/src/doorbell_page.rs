//! A page of doorbells that carry values, as NVMe controllers have it (NVM Express over PCIe Transport Specification
//! 1.1, 3.1.2): the driver writes the new tail of a submission queue, or the new head of a completion queue, to the
//! queue's doorbell.
//!
//! A queue needs only the last value of its doorbell. If the backend stores the value, a write causes no exit;
//! otherwise the device model stores it, on the vCPU's thread. In both cases the eventfd is signalled afterwards, and
//! any thread may read the value.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use vmbell::bus::BusDevice;
use vmbell::doorbell::IoEventAddress;
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell_hypervisor::{Doorbell, Error, IoEvents};

/// Bytes of a doorbell's value.
const LEN: u32 = 4;

/// The doorbells of one controller: number 2y is the tail of submission queue y, and number 2y + 1 the head of
/// completion queue y.
#[derive(Debug)]
pub struct DoorbellPage {
    stride: u64,
    doorbells: Vec<QueueDoorbell>,
}

#[derive(Debug)]
struct QueueDoorbell {
    event: Arc<EventFd>,
    by: StoredBy,
}

/// What stores the values of a doorbell.
#[derive(Debug)]
enum StoredBy {
    Backend(Doorbell),
    Exits(AtomicU32),
}

impl DoorbellPage {
    /// Creates `count` doorbells of 4 bytes, `stride` bytes apart, from the guest-physical address `base` on. For
    /// backends that store no values, the caller puts the page on its bus at `base`.
    ///
    /// # Errors
    ///
    /// If `stride` is not a multiple of 4 above 0, if the process cannot have more descriptors, or if the addresses are
    /// already in use.
    pub fn new(events: &dyn IoEvents, base: u64, count: u32, stride: u32) -> Result<Self, Error> {
        if stride == 0 || !stride.is_multiple_of(LEN) {
            return Err(Error::Config {
                what: "stride",
                value: stride.to_string(),
                rule: "a multiple of 4 bytes above 0".to_owned(),
            });
        }
        let stride = u64::from(stride);
        let doorbell = |number: u64| {
            let event = EventFd::new(EFD_NONBLOCK).map_err(Error::system("create an eventfd"))?;
            let event = Arc::new(event);
            let address = IoEventAddress::Mmio(base + number * stride);
            let by = match events.register_payload(&event, address, LEN) {
                Ok(doorbell) => StoredBy::Backend(doorbell),
                Err(Error::Unsupported { .. }) => StoredBy::Exits(AtomicU32::new(0)),
                Err(error) => return Err(error),
            };
            Ok(QueueDoorbell { event, by })
        };
        let doorbells = (0..u64::from(count)).map(doorbell);
        Ok(Self {
            stride,
            doorbells: doorbells.collect::<Result<_, _>>()?,
        })
    }

    /// How many bytes of guest-physical addresses the page takes.
    pub fn len(&self) -> u64 {
        self.stride * self.doorbells.len() as u64
    }

    /// Whether the page has no doorbell.
    pub fn is_empty(&self) -> bool {
        self.doorbells.is_empty()
    }

    /// Whether writes cause no exits, because the backend stores their values.
    pub fn is_without_exits(&self) -> bool {
        let by_backend = |doorbell: &QueueDoorbell| matches!(doorbell.by, StoredBy::Backend(_));
        self.doorbells.iter().all(by_backend)
    }

    /// The eventfd that is signalled after doorbell `number` has stored a value; `None` if there is no such doorbell.
    pub fn event(&self, number: usize) -> Option<&Arc<EventFd>> {
        Some(&self.doorbells.get(number)?.event)
    }

    /// The last value that the guest wrote to doorbell `number`, 0 before the first write. The guest chose the value,
    /// so the queue must check it.
    ///
    /// `None` if there is no such doorbell, or if the guest and its values are gone.
    pub fn value(&self, number: usize) -> Option<u32> {
        match &self.doorbells.get(number)?.by {
            StoredBy::Backend(doorbell) => u32::try_from(doorbell.payload()?).ok(),
            StoredBy::Exits(value) => Some(value.load(Acquire)),
        }
    }
}

/// Reads return zeros, since the specification leaves them open. Writes have no effect if they have another width, are
/// between two doorbells, or are to a doorbell whose values the backend stores.
impl BusDevice for DoorbellPage {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let Ok(data) = <[u8; LEN as usize]>::try_from(data) else {
            return;
        };
        let number = usize::try_from(offset / self.stride).ok();
        let doorbell = number.and_then(|number| self.doorbells.get(number));
        if let Some(QueueDoorbell { event, by }) = doorbell
            && let StoredBy::Exits(value) = by
            && offset.is_multiple_of(self.stride)
        {
            value.store(u32::from_le_bytes(data), Release);
            // The write fails only if the count is at its limit, and then the reader is signalled already.
            let _ = event.write(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry_double::Registry;

    fn page(count: u32) -> DoorbellPage {
        DoorbellPage::new(&Registry::default(), 0xd000_1000, count, 8).unwrap()
    }

    #[test]
    fn exits_store_values_and_signal_where_the_backend_stores_none() {
        let page = page(4);
        assert!(!page.is_without_exits());
        assert_eq!(
            (page.len(), page.value(3), page.value(4)),
            (32, Some(0), None)
        );
        page.write(8, &7_u32.to_le_bytes());
        page.write(24, &u32::MAX.to_le_bytes());
        page.write(24, &9_u32.to_le_bytes());
        let values = [0, 1, 2, 3].map(|number| page.value(number).unwrap());
        assert_eq!(values, [0, 7, 0, 9]);
        let signals = [1, 3].map(|number| page.event(number).unwrap().read().unwrap());
        assert_eq!(signals, [1, 2]);
    }

    #[test]
    fn other_widths_and_places_have_no_effect() {
        let page = page(2);
        page.write(4, &7_u32.to_le_bytes());
        page.write(9, &7_u32.to_le_bytes());
        page.write(16, &7_u32.to_le_bytes());
        page.write(8, &[1, 2]);
        page.write(8, &[1; 8]);
        assert_eq!([0, 1].map(|number| page.value(number)), [Some(0), Some(0)]);
        assert!(
            page.event(1).unwrap().read().is_err(),
            "nothing was signalled"
        );
        let mut data = [0xff; 4];
        page.read(8, &mut data);
        assert_eq!(data, [0; 4]);
    }

    #[test]
    fn a_stride_that_is_no_multiple_of_four_is_refused() {
        for stride in [0, 2, 6] {
            let error = DoorbellPage::new(&Registry::default(), 0xd000_1000, 1, stride);
            let text = error.unwrap_err().to_string();
            assert!(text.contains("a multiple of 4"), "{text}");
        }
    }
}
