// Sets up LPIs of this vcpu (Arm IHI 0069, chapters 5 and 12): the device with the number DEVICE + index of the vcpu
// has the events 0 to 255, of which EVENT is LPI INTID + 256 * index, and the others follow from there. TABLES is the
// address of zeroed memory for up to four vcpus, a multiple of 64 KiB: devices, +0x10000 collections, +0x20000
// configuration of 8192 LPIs, +0x22000 a lock, +0x24000 translations of 4 KiB for each vcpu, +0x30000 commands,
// +0x40000 pending bits of 64 KiB for each vcpu. Only one vcpu at a time writes commands.
18:
    add x13, x12, #0x22, lsl #12
1:
    ldaxr w14, [x13]
    cbnz w14, 1b
    mov w14, #1
    stxr w15, w14, [x13]
    cbnz w15, 1b
    movz x9, #({ITS} >> 16), lsl #16
    // Every LPI is enabled; the second bit is always set. A table that is filled already stays, since other LPIs may be
    // in use.
    add x13, x12, #0x20, lsl #12
    mov w14, #0xa3
    ldrb w15, [x13]
    cmp w15, w14
    b.eq 3f
    mov w15, #0x2000
2:
    sub w15, w15, #1
    strb w14, [x13, w15, uxtw]
    cbnz w15, 2b
    dsb ishst
3:
    // GICR_PROPBASER with 14 bits of INTID, GICR_PENDBASER, and the LPIs on. All tables are write-back, inner
    // shareable.
    movz x10, #({GICR} >> 16), lsl #16
    add x10, x10, x20, lsl #17
    mov x14, #0x78d
    orr x14, x14, x13
    str x14, [x10, #0x70]
    add x14, x12, #0x40, lsl #12
    add x14, x14, x20, lsl #16
    mov x15, #0x780
    orr x14, x14, x15
    str x14, [x10, #0x78]
    mov w14, #1
    str w14, [x10]
    dsb sy
    // GITS_CTLR: the first vcpu here gives the ITS its tables and its queue of commands.
    ldr w14, [x9]
    tbnz w14, #0, 7f
    add x13, x9, #0x100
    mov w14, #8
4:
    ldr x15, [x13]
    ubfx x15, x15, #56, #3
    mov x16, x12
    cmp w15, #1
    b.eq 5f
    add x16, x12, #0x10, lsl #12
    cmp w15, #4
    b.ne 6f
5:
    // GITS_BASER: valid, one page of 64 KiB.
    movz x15, #0xb800, lsl #48
    movk x15, #0x0600
    orr x15, x15, x16
    str x15, [x13]
6:
    add x13, x13, #8
    subs w14, w14, #1
    b.ne 4b
    // GITS_CBASER: valid, 16 pages of 4 KiB; GITS_CWRITER.
    add x13, x12, #0x30, lsl #12
    movz x15, #0xb800, lsl #48
    movk x15, #0x040f
    orr x15, x15, x13
    str x15, [x9, #0x80]
    str xzr, [x9, #0x88]
    mov w14, #1
    str w14, [x9]
7:
    // The number by which the ITS knows this redistributor (GICR_TYPER).
    ldr x10, [x10, #8]
    ubfx x10, x10, #8, #16
    lsl x10, x10, #16
    mov x17, #1
    lsl x17, x17, #63
    // The end of the commands so far, x13; the next command is at x14, and its words are x22 to x24.
    ldr x13, [x9, #0x88]
    add x14, x12, #0x30, lsl #12
    ldr x11, [x19, #{DEVICE}]
    add x11, x11, x20
    lsl x11, x11, #32
    // MAPC: the collection with this vcpu's number leads to this vcpu.
    mov x22, #9
    mov x23, xzr
    orr x24, x10, x17
    orr x24, x24, x20
    bl 19f
    // MAPD: eight bits of event, and where the translations are.
    orr x22, x11, #8
    mov x23, #7
    add x24, x12, #0x24, lsl #12
    add x24, x24, x20, lsl #12
    orr x24, x24, x17
    bl 19f
    // MAPTI of each event.
    mov x15, xzr
    ldr x26, [x19, #{INTID}]
    ldr x25, [x19, #{EVENT}]
    sub x26, x26, x25
    add x26, x26, x20, lsl #8
8:
    mov x22, #10
    orr x22, x22, x11
    add x23, x26, x15
    orr x23, x15, x23, lsl #32
    mov x24, x20
    bl 19f
    add x15, x15, #1
    cmp x15, #256
    b.lo 8b
    // SYNC.
    mov x22, #5
    mov x23, xzr
    mov x24, x10
    bl 19f
    dsb sy
    str x13, [x9, #0x88]
9:
    // GITS_CREADR: waits until the commands are done.
    ldr x14, [x9, #0x90]
    cmp x14, x13
    b.ne 9b
    add x13, x12, #0x22, lsl #12
    stlr wzr, [x13]
    b 20f
// Appends a command.
19:
    add x16, x14, x13
    stp x22, x23, [x16]
    stp x24, xzr, [x16, #16]
    add x13, x13, #32
    and x13, x13, #0xffff
    ret
