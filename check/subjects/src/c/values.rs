//! Linux's rings with a value in every field: each side checks all that it reads of the other.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use vmbell_check::{Format, Scenario, Shape, claim};
use vmbell_virtqueue::Buffer;

use super::{CLinuxDevice, CLinuxDriver, LinuxDriver, Vringh};
use crate::vmbell::Pieces;
use crate::vmbell::values::{run, server};
use crate::{Bells, Chains, Checked, DriverSide, Site, Work, requests};

/// `struct subject_request` of `c/subject.h`.
#[derive(Default)]
#[repr(C)]
struct CRequest {
    n: u64,
    readable: u64,
    writable: u64,
    readable_len: u32,
    writable_len: u32,
}

unsafe extern "C-unwind" {
    fn linux_driver_add_request(driver: NonNull<CLinuxDriver>, request: *const CRequest);
    fn linux_driver_take_request(driver: NonNull<CLinuxDriver>, n: *mut u64, len: *mut u32)
    -> bool;
    fn linux_device_take(
        device: NonNull<CLinuxDevice>,
        request: *mut CRequest,
        head: *mut u16,
    ) -> i32;
    fn linux_device_give_back(device: NonNull<CLinuxDevice>, head: u16, len: u32);
}

/// A scenario of Linux's driver that carries values.
#[derive(Clone, Copy, Debug)]
pub struct LinuxValues {
    /// The ring.
    pub shape: Shape,
    /// Whether each request is a chain of two descriptors, or else one descriptor that the device writes.
    pub chained: bool,
    /// Whether the device is vringh, or else vmbell's.
    pub vringh: bool,
    /// What both sides do.
    pub work: Work,
}

impl LinuxValues {
    /// Rings with both kinds of request and event, each way to give buffers back, and each way to enable interrupts: while
    /// the driver sleeps, late, or once.
    pub fn all() -> Vec<LinuxValues> {
        let mut found = Vec::new();
        for shape in [Shape::split, Shape::packed] {
            for event_idx in [false, true] {
                for chained in [false, true] {
                    let shape = shape(if chained { 4 } else { 2 }, event_idx);
                    let plain = LinuxValues {
                        shape,
                        chained,
                        vringh: false,
                        work: Work::new(2, 2),
                    };
                    found.push(plain);
                    if shape.format == Format::Split {
                        found.push(LinuxValues {
                            vringh: true,
                            ..plain
                        });
                    }
                    if chained {
                        continue;
                    }
                    found.push(LinuxValues {
                        shape: shape.in_order(),
                        work: Work {
                            at_once: true,
                            ..plain.work
                        },
                        ..plain
                    });
                    found.push(LinuxValues {
                        work: Work {
                            late: true,
                            ..plain.work
                        },
                        ..plain
                    });
                    for shape in [shape, shape.in_order()] {
                        found.push(LinuxValues {
                            shape,
                            work: Work {
                                armed: true,
                                ..plain.work
                            },
                            ..plain
                        });
                    }
                }
            }
        }
        found
    }

    /// Sets the scenario up.
    pub fn set_up(&self, scenario: &mut Scenario) {
        let ring = scenario.ring(self.shape);
        ring.preset();
        let layout = (ring.descriptors, ring.driver, ring.device);
        let site = crate::scenario::site(ring.memory(), self.shape, layout);
        let bells: Arc<dyn Bells> = Arc::new(Checked::new(ring));
        let pieces = if self.chained {
            Pieces::Chain
        } else {
            Pieces::One
        };
        let driver = Box::new(Sender {
            linux: LinuxDriver::new(&site),
            site,
            chained: self.chained,
            rests: self.work.armed,
            has_enabled: false,
            next: 0,
        });
        let device: Box<dyn Chains> = if self.vringh {
            Box::new(Server {
                vringh: Vringh::new(&site),
                site,
                chained: self.chained,
            })
        } else {
            server(&site, pieces, self.work.at_once)
        };
        run(scenario, driver, device, self.work, bells);
    }
}

impl fmt::Display for LinuxValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.shape.format {
            Format::Split => "split",
            Format::Packed => "packed",
        })?;
        let switches = [
            (self.shape.event_idx, ", event index"),
            (self.shape.in_order, ", in order"),
            (self.chained, ", chained"),
            (self.vringh, ", vringh"),
            (self.work.late, ", late"),
            (self.work.armed, ", enabled once"),
        ];
        for (is_on, name) in switches {
            f.write_str(if is_on { name } else { "" })?;
        }
        Ok(())
    }
}

struct Sender {
    linux: LinuxDriver,
    site: Site,
    chained: bool,
    /// Whether the sender enables interrupts once, and then sleeps whenever it finds no used buffer.
    rests: bool,
    has_enabled: bool,
    next: u64,
}

impl DriverSide for Sender {
    fn add(&mut self) {
        let n = self.next;
        self.next += 1;
        let [from, to] = requests::buffers(n);
        if self.chained {
            requests::write_request(&self.site, n);
        }
        let request = CRequest {
            n,
            readable: from.addr,
            readable_len: if self.chained { from.len } else { 0 },
            writable: to.addr,
            writable_len: to.len,
        };
        // SAFETY: see `LinuxDriver`; the request lives until the call returns.
        unsafe { linux_driver_add_request(self.linux.driver, &raw const request) };
    }
    fn wants_kick(&mut self) -> bool {
        self.linux.wants_kick()
    }
    fn take(&mut self) -> bool {
        let (mut n, mut len) = (0, 0);
        // SAFETY: see `LinuxDriver`; both values live until the call returns.
        let taken =
            unsafe { linux_driver_take_request(self.linux.driver, &raw mut n, &raw mut len) };
        if taken {
            requests::check_length(n, len);
            // A driver that rests makes no other access to the ring between taking a buffer, which moves the event, and
            // its next look.
            if !self.rests {
                requests::check_answer(&self.site, n);
            }
        }
        taken
    }
    fn quiet(&mut self) {
        self.linux.quiet();
    }
    fn listen(&mut self) -> bool {
        // After that, taking a buffer moves the event.
        if self.rests && self.has_enabled {
            return true;
        }
        self.has_enabled = true;
        // Interrupts that were never off have no event on a packed ring.
        self.linux.quiet();
        self.linux.listen()
    }
    fn listen_late(&mut self) -> bool {
        self.linux.listen_late()
    }
}

struct Server {
    vringh: Vringh,
    site: Site,
    chained: bool,
}

impl Chains for Server {
    fn quiet(&mut self) {
        self.vringh.quiet();
    }
    fn serve(&mut self) -> bool {
        let (mut request, mut head) = (CRequest::default(), 0);
        let device = self.vringh.0;
        // SAFETY: see `Vringh`; both values live until the call returns.
        let found = unsafe { linux_device_take(device, &raw mut request, &raw mut head) };
        claim(found >= 0, || format!("vringh refuses a chain: {found}"));
        if found == 0 {
            return false;
        }
        let readable = [Buffer::new(request.readable, request.readable_len)];
        let writable = [Buffer::new(request.writable, request.writable_len)];
        let len = requests::answer(&self.site, &readable, &writable, self.chained);
        // SAFETY: see `Vringh`.
        unsafe { linux_device_give_back(device, head, len) };
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        self.vringh.wants_interrupt()
    }
    fn listen(&mut self) -> bool {
        self.vringh.listen()
    }
}
