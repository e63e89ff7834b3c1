//! virtio-driver 0.6.1 (libblkio), the driver side of split and packed rings in user space.
//!
//! Users disable used buffer notifications while they poll. Before they sleep, they enable them and look again.
#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};
use std::{env, fs, process, ptr, thread};

use virtio_driver::virtqueue::{Virtqueue, VirtqueueLayout};
use virtio_driver::{
    IovaTranslator, VhostUser, VirtioBlkConfig, VirtioFeatureFlags, VirtioTransport, iovec,
};

use crate::memory::{BUFFER, BUFFER_LEN};
use crate::{About, BOTH, Driver, DriverSide, Site};

pub(crate) const DRIVER: Driver = Driver {
    about: About {
        name: "virtio-driver",
        version: "0.6.1",
        formats: BOTH,
        starts: false,
        in_order: false,
    },
    new: Some(|site, mended| Box::new(Requests::new(site, mended, false))),
    layout: None,
    // The driver sets VIRTQ_DESC_F_NEXT even in a packed chain of a single descriptor, so each chain has two.
    pieces_if_split: 1,
    pieces_if_packed: 2,
};

pub(crate) const ALWAYS_ON: Driver = Driver {
    about: About {
        name: "virtio-driver, always on",
        ..DRIVER.about
    },
    new: Some(|site, mended| Box::new(Requests::new(site, mended, true))),
    ..DRIVER
};

type Transport = VhostUser<VirtioBlkConfig, ()>;

/// The subject's own translation of addresses, which only its vhost-user transport provides. It maps each guest address
/// to itself.
fn translator() -> Box<dyn IovaTranslator> {
    static TRANSPORT: OnceLock<Transport> = OnceLock::new();
    let transport = TRANSPORT.get_or_init(|| connect().expect("there is a vhost-user back end"));
    transport.iova_translator()
}

/// Connects to a back end that has no device and answers only the requests of a connection.
fn connect() -> io::Result<Transport> {
    let path = env::temp_dir().join(format!("vmbell-subjects-{}", process::id()));
    let listener = UnixListener::bind(&path)?;
    let back_end = thread::spawn(move || answer(listener.accept()?.0));
    let name = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let transport = VhostUser::new(name, u64::MAX);
    fs::remove_file(&path)?;
    let answered = back_end.join();
    answered.map_err(|_| io::ErrorKind::BrokenPipe)??;
    transport
}

/// Answers the requests for features and other numbers that the subject requires, up to the last of them.
fn answer(mut front_end: UnixStream) -> io::Result<()> {
    const GETS: [(u32, u64); 3] = [(1, 1 << 30), (15, 1 << 3 | 1 << 9 | 1 << 15), (36, 1)];
    const REPLY: u32 = 1 | 1 << 2;
    loop {
        let mut header = [0; 12];
        front_end.read_exact(&mut header)?;
        let [request, _, len] = [0, 4, 8].map(|at| {
            let word = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_ne_bytes(word)
        });
        io::copy(&mut (&front_end).take(len.into()), &mut io::sink())?;
        let Some((_, value)) = GETS.into_iter().find(|(get, _)| *get == request) else {
            continue;
        };
        let mut reply = [request, REPLY, 8].map(u32::to_ne_bytes).concat();
        reply.extend_from_slice(&value.to_ne_bytes());
        front_end.write_all(&reply)?;
        if request == GETS[2].0 {
            return Ok(());
        }
    }
}

struct Requests {
    queue: Virtqueue<'static, ()>,
    pieces: u16,
    mended: bool,
    always_on: bool,
}

impl Requests {
    fn new(site: &Site, mended: bool, always_on: bool) -> Requests {
        let mut features = VirtioFeatureFlags::VERSION_1;
        features.set(VirtioFeatureFlags::RING_EVENT_IDX, site.shape.event_idx);
        features.set(VirtioFeatureFlags::RING_PACKED, !site.is_split());
        let size = site.shape.size;
        let layout = VirtqueueLayout::new::<()>(1, size.into(), features);
        let layout = layout.expect("the size is a power of two");
        assert_eq!(
            (layout.driver_area_offset, layout.device_area_offset),
            (site.layout.1.into(), site.layout.2.into()),
            "the ring has the subject's layout"
        );
        // SAFETY: the caller of `Site::new` vouches for the mapping, which outlives this side. The subject's API needs
        // a mutable slice of memory to which the device also writes.
        let ring = unsafe { slice::from_raw_parts_mut(site.base().as_ptr(), layout.end_offset) };
        let queue = Virtqueue::new(translator(), ring, size, features);
        let mut queue = queue.expect("the ring is large enough");
        if always_on {
            queue.set_used_notif_enabled(true);
        }
        Requests {
            queue,
            pieces: DRIVER.pieces(site.shape.format),
            mended,
            always_on,
        }
    }

    /// The fix: a fence between a store to one area and a load of the other.
    fn mend(&self) {
        if self.mended {
            fence(Ordering::SeqCst);
        }
    }
}

impl DriverSide for Requests {
    fn add(&mut self) {
        let buffer = iovec {
            iov_base: ptr::without_provenance_mut(BUFFER as usize),
            iov_len: BUFFER_LEN as usize,
        };
        let pieces = self.pieces;
        let added = self
            .queue
            .add_request(|(), piece| (0..pieces).try_for_each(|_| piece(buffer, false)));
        added.expect("the queue has a free descriptor");
    }
    fn wants_kick(&mut self) -> bool {
        self.mend();
        self.queue.avail_notif_needed()
    }
    fn take(&mut self) -> bool {
        self.queue.completions().next().is_some()
    }
    fn quiet(&mut self) {
        if !self.always_on {
            self.queue.set_used_notif_enabled(false);
        }
    }
    fn listen(&mut self) -> bool {
        if !self.always_on {
            self.queue.set_used_notif_enabled(true);
        }
        self.mend();
        !self.queue.completions().has_next()
    }
}
