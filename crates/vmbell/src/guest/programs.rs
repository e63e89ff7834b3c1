//! The programs of the scenarios. On an architecture that no backend runs guests of yet they are empty.
#![allow(unsafe_code)]

crate::guest_programs! {
    /// Writes four bytes to a port.
    portio = "x86_64/portio.S";
    /// Writes one byte to a port.
    portio_byte = "x86_64/portio_byte.S";
    /// Executes the CPU's hypercall instruction.
    vmcall = "x86_64/vmcall.S";
    /// Stores four bytes to an address.
    mmio = "x86_64/mmio.S";
    /// Calls the hypercall page.
    hypercall = "x86_64/hypercall.S";
    /// Adds to a word in shared memory.
    word = "x86_64/word.S";
    /// Drives a virtqueue and polls for what is used.
    virtqueue_polled = "x86_64/virtqueue_setup.S" "x86_64/virtqueue_polled.S";
    /// Drives a virtqueue and halts until it is interrupted.
    virtqueue_interrupt = "x86_64/interrupt_head.S" "x86_64/virtqueue_setup.S" "x86_64/virtqueue_interrupt.S";
    /// Writes to a port and waits until somebody has noticed.
    notify_portio = "x86_64/notify_portio.S";
    /// Stores to an address and waits until somebody has noticed.
    notify_mmio = "x86_64/notify_mmio.S";
    /// Calls the hypercall page and waits until somebody has noticed.
    notify_hypercall = "x86_64/notify_hypercall.S";
    /// Adds to a word in shared memory and waits until somebody has noticed.
    notify_word = "x86_64/notify_word.S";
    /// Takes interrupts while it runs.
    interrupt_running = "x86_64/interrupt_head.S" "x86_64/interrupt_running.S";
    /// Takes interrupts while it is halted.
    interrupt_halted = "x86_64/interrupt_head.S" "x86_64/interrupt_halted.S";
    /// Measures the end of an interrupt.
    eoi = "x86_64/interrupt_head.S" "x86_64/eoi.S";
    /// Interrupts itself.
    self_ipi = "x86_64/interrupt_head.S" "x86_64/self_ipi.S";
    /// Interrupts another vCPU.
    ipi = "x86_64/interrupt_head.S" "x86_64/ipi.S";
}
