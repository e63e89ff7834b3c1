//! The programs of the scenarios. A program that an architecture does not have is empty on it.
#![allow(unsafe_code)]

crate::guest_programs! {
    /// Writes four bytes to a port.
    portio = "x86_64/portio.S";
    /// Writes one byte to a port.
    portio_byte = "x86_64/portio_byte.S";
    /// Executes the CPU's hypercall instruction.
    vmcall = "x86_64/vmcall.S" | "aarch64/vmcall.S";
    /// Stores four bytes to an address.
    mmio = "x86_64/mmio.S" | "aarch64/mmio.S";
    /// Loads four bytes from an address.
    mmio_load = "x86_64/mmio_load.S" | "aarch64/mmio_load.S";
    /// Calls the hypercall page.
    hypercall = "x86_64/hypercall.S" | "aarch64/hypercall.S";
    /// Adds to a word in shared memory.
    word = "x86_64/word.S" | "aarch64/word.S";
    /// Drives a virtqueue and polls its used ring.
    virtqueue_polled = "x86_64/virtqueue_polled.S" "x86_64/virtqueue_setup.S" "x86_64/virtqueue_requests.S"
        | "aarch64/virtqueue_polled.S" "aarch64/virtqueue_setup.S" "aarch64/virtqueue_requests.S";
    /// Drives a virtqueue and halts until an interrupt comes.
    virtqueue_interrupt = "x86_64/interrupt_head.S" "x86_64/virtqueue_interrupt.S" "x86_64/virtqueue_setup.S" "x86_64/virtqueue_requests.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/virtqueue_interrupt.S" "aarch64/virtqueue_setup.S" "aarch64/virtqueue_requests.S";
    /// Writes to a port and waits until the host has answered.
    notify_portio = "x86_64/notify_portio.S" "x86_64/notify.S";
    /// Stores to an address and waits until the host has answered.
    notify_mmio = "x86_64/notify_mmio.S" "x86_64/notify.S" | "aarch64/notify_mmio.S" "aarch64/notify.S";
    /// Calls the hypercall page and waits until the host has answered.
    notify_hypercall = "x86_64/notify_hypercall.S" "x86_64/notify.S"
        | "aarch64/notify_hypercall.S" "aarch64/notify.S";
    /// Adds to a word in shared memory and waits until the host has answered.
    notify_word = "x86_64/notify_word.S" "x86_64/notify.S" | "aarch64/notify_word.S" "aarch64/notify.S";
    /// Takes interrupts while it runs.
    interrupt_running = "x86_64/interrupt_head.S" "x86_64/interrupt_running.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/interrupt_running.S";
    /// Takes interrupts while it is halted.
    interrupt_halted = "x86_64/interrupt_head.S" "x86_64/interrupt_halted.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/interrupt_halted.S";
    /// Raises interrupts of QEMU's device edu, and takes each while it is halted.
    edu_interrupt = "x86_64/interrupt_head.S" "x86_64/edu_interrupt.S";
    /// Raises interrupts of a PL031 clock, and takes each while it is halted.
    pl031_interrupt = | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/pl031_interrupt.S";
    /// Measures the EOI of an interrupt.
    eoi = "x86_64/interrupt_head.S" "x86_64/eoi.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/eoi.S";
    /// Sends an interrupt to its own vCPU.
    self_ipi = "x86_64/interrupt_head.S" "x86_64/self_ipi.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/self_ipi.S";
    /// Sends interrupts to another vCPU.
    ipi = "x86_64/interrupt_head.S" "x86_64/ipi.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/ipi.S";
    /// Interrupts all other vCPUs, which are halted.
    ipi_all = "x86_64/interrupt_head.S" "x86_64/ipi_all.S"
        | "aarch64/interrupt_head.S" "aarch64/gic.S" "aarch64/its.S" "aarch64/ipi_all.S";
}
