// Takes the interrupt INTID and sleeps in between: reports that it is done once it has taken TARGET interrupts. x0 =
// parameters. If ADDRESS is not 0, the handler stores the INTID there before it ends the interrupt.
    b 10f
    .balign 16
    stp x0, x1, [sp, #-16]!
    stp x2, x3, [sp, #-16]!
    cbnz x27, 20f
    mrs x0, S3_0_C12_C12_0          // ICC_IAR1_EL1
    dsb sy
    and x1, x0, #0xffffff
    b 21f
20:
    ldr w0, [x27, 0xc]              // GICC_IAR
    and w1, w0, #0x3ff
21:
    ldr x2, [x19, {INTID}]
    cmp x1, x2
    b.ne 29f
    ldr x2, [x19, {ADDRESS}]
    cbz x2, 22f
    str w1, [x2]
22:
    ldr x2, [x19, {INTERRUPTS}]
    add x2, x2, 1
    str x2, [x19, {INTERRUPTS}]
    cbnz x27, 23f
    msr S3_0_C12_C12_1, x0          // ICC_EOIR1_EL1
    isb
    b 24f
23:
    str w0, [x27, 0x10]             // GICC_EOIR
24:
    ldp x2, x3, [sp], #16
    ldp x0, x1, [sp], #16
    ldp x16, x17, [sp], #16
    eret
// A different interrupt from INTID.
29:
    brk 1

10:
    mov x19, x0
    mov x27, xzr
    mov x26, {GICD}
    ldr x20, [x19, {INTID}]
    ldr x21, [x19, {GIC}]
    cmp x21, 2
    b.eq 30f
// GICv3: ARE and group 1, then the redistributor's wake-up and the CPU interface in system registers.
    mov w9, 0x12
    str w9, [x26]
    mov x25, {GICR}
    str wzr, [x25, 0x14]
    mov x9, 1
    msr S3_0_C12_C12_5, x9          // ICC_SRE_EL1
    isb
    mov x9, 0xf0
    msr S3_0_C4_C6_0, x9            // ICC_PMR_EL1
    mov x9, 1
    msr S3_0_C12_C12_7, x9          // ICC_IGRPEN1_EL1
    isb
    mov w9, 8192
    cmp x20, x9
    b.hs 50f
    b 31f
30:
    mov x27, {GICC}
    mov w9, 1
    str w9, [x26]
    mov w9, 0xf0
    str w9, [x27, 4]
    mov w9, 1
    str w9, [x27]
// The SPI: its group (only GICv3 needs the second), its priority, its trigger, its target, and the enable bit.
31:
    lsr x10, x20, 5
    lsl x10, x10, 2
    mov w11, 1
    lsl w11, w11, w20
    cbnz x27, 32f
    add x12, x26, 0x80
    mov w9, -1
    str w9, [x12, x10]
    add x12, x26, 0x6000
    str xzr, [x12, x20, lsl 3]
    b 33f
32:
    add x12, x26, 0x800
    mov w9, 1
    strb w9, [x12, x20]
33:
    add x12, x26, 0x400
    mov w9, 0x80
    strb w9, [x12, x20]
    lsr x13, x20, 4
    lsl x13, x13, 2
    add x12, x26, 0xc00
    mov w9, 0xaaaaaaaa
    ldr x14, [x19, {LEVEL}]
    cmp x14, 0
    csel w9, w9, wzr, eq
    str w9, [x12, x13]
    add x12, x26, 0x100
    str w11, [x12, x10]
// Takes interrupts.
40:
    dsb sy
    msr daifclr, 2
    mov x9, 1
    str x9, [x19, {READY}]
41:
    ldr x9, [x19, {INTERRUPTS}]
    ldr x10, [x19, {TARGET}]
    cmp x9, x10
    b.hs 42f
    // An interrupt between the comparison and here ends the wait: it is taken with interrupts masked.
    msr daifset, 2
    ldr x9, [x19, {INTERRUPTS}]
    cmp x9, x10
    b.hs 43f
    wfi
43:
    msr daifclr, 2
    b 41b
42:
    mov x12, {DONE_ADDRESS}
    str wzr, [x12]
    b 41b

// An LPI: memory for its configuration and its state at the redistributor, then the ITS's tables and commands. TABLES
// has 64 KiB each for the configuration, the pending state, the devices, the collections, the commands, and the
// device's events.
50:
    ldr x22, [x19, {TABLES}]
    mov x23, 0x10000
    // The first byte belongs to LPI 8192: priority 0x80, enabled.
    sub x9, x20, 8192
    mov w10, 0x81
    strb w10, [x22, x9]
    dsb sy
    add x11, x25, 0x70              // GICR_PROPBASER: 16 bits of INTIDs, write-back, inner shareable
    orr x9, x22, 0xf
    mov x10, 0x780
    orr x9, x9, x10
    str x9, [x11]
    add x12, x22, x23
    add x11, x25, 0x78              // GICR_PENDBASER: the same
    orr x9, x12, x10
    str x9, [x11]
    mov w9, 1
    str w9, [x25]                   // GICR_CTLR.EnableLPIs
    mov x24, {ITS}
    add x12, x12, x23
    mov x9, 0x8000000000000000
    orr x9, x9, x12
    str x9, [x24, 0x100]            // GITS_BASER0: devices
    add x12, x12, x23
    mov x9, 0x8000000000000000
    orr x9, x9, x12
    str x9, [x24, 0x108]            // GITS_BASER1: collections
    add x12, x12, x23
    mov x9, 0x8000000000000000
    orr x9, x9, x12
    str x9, [x24, 0x80]             // GITS_CBASER: one page
    add x13, x12, x23               // events
    mov w9, 1
    str w9, [x24]                   // GITS_CTLR.Enabled
    ldr x16, [x19, {DEVICE}]
    ldr x17, [x19, {EVENT}]
    // MAPC: collection 0 to redistributor 0.
    mov x9, 9
    mov x14, 0x8000000000000000
    stp x9, xzr, [x12]
    stp x14, xzr, [x12, 16]
    // MAPD: the device's table of 2^5 events.
    lsl x9, x16, 32
    orr x9, x9, 8
    mov x10, 4
    orr x11, x13, x14
    stp x9, x10, [x12, 32]
    stp x11, xzr, [x12, 48]
    // MAPTI: the event to the LPI, collection 0.
    lsl x9, x16, 32
    mov x10, 0xa
    orr x9, x9, x10
    lsl x10, x20, 32
    orr x10, x10, x17
    stp x9, x10, [x12, 64]
    stp xzr, xzr, [x12, 80]
    // INV: its configuration is read again.
    lsl x9, x16, 32
    mov x10, 0xc
    orr x9, x9, x10
    stp x9, x17, [x12, 96]
    stp xzr, xzr, [x12, 112]
    dsb sy
    mov x9, 128
    str x9, [x24, 0x88]             // GITS_CWRITER
51:
    ldr x9, [x24, 0x90]             // GITS_CREADR
    cmp x9, 128
    b.ne 51b
    b 40b
