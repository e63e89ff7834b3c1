//! arcbox-virtio-core 0.10.5, the device side of a split ring in ArcBox' VMM.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arcbox_virtio_core::{GuestMemWriter, QueueConfig, SplitQueue};

use crate::{About, Bells, Chains, Device, DeviceSide, SPLIT, Site, handle_chains};

pub(crate) const DEVICE: Device = Device {
    about: About {
        name: "arcbox-virtio-core",
        version: "0.10.5",
        formats: SPLIT,
        starts: true,
        in_order: false,
    },
    new: Some(|site, mended| Box::new(Served::new(site, mended))),
    interrupts: true,
    memory: None,
};

struct Served {
    queue: SplitQueue,
    /// The used index, and whether the queue asked for an interrupt when the last buffer was given back.
    used: u16,
    wanted: bool,
    mended: bool,
}

impl Served {
    fn new(site: &Site, mended: bool) -> Served {
        // SAFETY: the caller of `Site::new` vouches for the mapping.
        let memory = unsafe { GuestMemWriter::new(site.base().as_ptr(), site.len, 0) };
        let config = QueueConfig {
            desc_addr: site.layout.0.into(),
            avail_addr: site.layout.1.into(),
            used_addr: site.layout.2.into(),
            size: site.shape.size,
            ready: true,
            gpa_base: 0,
        };
        let mut queue = SplitQueue::new(Arc::new(memory), 0, &config, site.shape.event_idx);
        queue.set_last_avail_idx(site.shape.start);
        Served {
            queue,
            used: site.shape.start,
            wanted: false,
            mended,
        }
    }
}

impl DeviceSide for Served {
    fn handle(&mut self, bells: &dyn Bells) {
        handle_chains(self, bells);
    }
}

impl Chains for Served {
    fn quiet(&mut self) {}
    fn serve(&mut self) -> bool {
        let Some(chain) = self.queue.pop_avail() else {
            return false;
        };
        self.wanted = self.queue.push_used(chain.head_idx, 0);
        self.used = self.used.wrapping_add(1);
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        if self.mended {
            // The fix: ask after a fence that follows the store to the used index.
            fence(Ordering::SeqCst);
            return self
                .queue
                .notify_needed(self.used.wrapping_sub(1), self.used);
        }
        self.wanted
    }
    fn listen(&mut self) -> bool {
        self.queue.enable_notification()
    }
}
