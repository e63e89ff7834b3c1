// Sends SGI w0 to the vcpu with index w1; changes x0 and x1. Earlier stores are visible before the interrupt.
17:
    dsb ishst
    cbnz x21, 1f
    lsl x0, x0, #24
    mov x16, #1
    lsl x1, x16, x1
    orr x0, x0, x1
    msr S3_0_C12_C11_5, x0
    isb
    ret
1:
    mov w16, #0x10000
    lsl w1, w16, w1
    orr w0, w0, w1
    movz x1, #({GICD} >> 16), lsl #16
    str w0, [x1, #0xf00]
    ret

// Sets up the interrupt controller (Arm IHI 0069 for version 3, IHI 0048 for version 2): this vcpu's interface and its
// SGIs; and if this is the first vcpu, the distributor, and the SPI if the page's word INTID is one. Each of SGIs 0 to
// 12 has a higher priority than the previous one, so that it is taken while the previous one is active.
10:
    mov x19, x0
    mov x20, x1
    movz x9, #({GICD} >> 16), lsl #16
    ldr x10, [x19, #{GIC}]
    mov x21, xzr
    cmp x10, #2
    b.ne 1f
    movz x21, #({GICC} >> 16), lsl #16
    movk x21, #({GICC} & 0xffff)
    // In a GICv2 the registers of SGIs are the distributor's, and each vcpu sees its own.
    mov x11, x9
    b 3f
1:
    movz x11, #({GICR} >> 16), lsl #16
    add x11, x11, x20, lsl #17
    // Wakes the redistributor (GICR_WAKER).
    ldr w12, [x11, #0x14]
    and w12, w12, #~2
    str w12, [x11, #0x14]
2:
    ldr w12, [x11, #0x14]
    tbnz w12, #2, 2b
    // Its second frame, with the SGIs' registers; they are in group 1.
    add x11, x11, #0x10, lsl #12
    mov w12, #-1
    str w12, [x11, #0x80]
3:
    add x12, x11, #0x400
    mov w13, #0xd0
4:
    // The CPU describes a store to the hypervisor only if it changes no other register.
    strb w13, [x12]
    add x12, x12, #1
    subs w13, w13, #0x10
    b.pl 4b
    mov w12, #0xffff
    str w12, [x11, #0x100]
    cbnz x20, 8f
    // GICD_CTLR: group 0 of a GICv2; group 1 and affinity routing of a GICv3.
    mov w12, #0x12
    cmp x21, #0
    csinc w12, w12, wzr, eq
    str w12, [x9]
    ldr w12, [x19, #{INTID}]
    sub w13, w12, #32
    cmp w13, #988
    b.hs 8f
    lsr w13, w12, #5
    lsl w13, w13, #2
    add x13, x9, x13
    mov w14, #1
    // The shift is by the INTID modulo 32.
    lsl w14, w14, w12
    cbnz x21, 5f
    // Group 1, and the route to the first vcpu (GICD_IGROUPR, GICD_IROUTER).
    ldr w15, [x13, #0x80]
    orr w15, w15, w14
    str w15, [x13, #0x80]
    add x15, x9, #0x6, lsl #12
    str xzr, [x15, w12, uxtw #3]
    b 6f
5:
    // GICD_ITARGETSR.
    add x15, x9, #0x800
    mov w16, #1
    strb w16, [x15, w12, uxtw]
6:
    // GICD_IPRIORITYR.
    add x15, x9, #0x400
    mov w16, #0xa0
    strb w16, [x15, w12, uxtw]
    // GICD_ICFGR: two bits for each interrupt, of which the upper one says edge.
    lsr w15, w12, #4
    lsl w15, w15, #2
    add x15, x9, x15
    add x15, x15, #0xc00
    and w16, w12, #0xf
    lsl w16, w16, #1
    mov w17, #2
    lsl w17, w17, w16
    ldr w16, [x15]
    bic w16, w16, w17
    ldr x12, [x19, #{LEVEL}]
    cbnz x12, 7f
    orr w16, w16, w17
7:
    str w16, [x15]
    // GICD_ISENABLER.
    str w14, [x13, #0x100]
    dsb sy
8:
    // The CPU interface: its priority mask lets all priorities pass, and each priority preempts every lower one.
    mov w12, #0xf0
    cbnz x21, 9f
    mrs x13, S3_0_C12_C12_5
    orr x13, x13, #1
    msr S3_0_C12_C12_5, x13
    isb
    msr S3_0_C4_C6_0, x12
    msr S3_0_C12_C12_3, xzr
    msr S3_0_C12_C12_4, xzr
    mov w12, #1
    msr S3_0_C12_C12_7, x12
    isb
    ldr x12, [x19, #{TABLES}]
    cbnz x12, 18f
    b 20f
9:
    str w12, [x21, #4]
    str wzr, [x21, #8]
    mov w12, #1
    str w12, [x21]
    b 20f
