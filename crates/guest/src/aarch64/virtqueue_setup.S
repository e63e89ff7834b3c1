// Sets up queue 0 of the virtio-mmio device at ADDRESS (virtio 1.3, 3.1 and 4.2.3), with a split ring of 8 entries at
// VALUE. Each request has 8 bytes, and its answer is the inverted bytes; one request is in flight at a time. The code
// that follows this file finds x25 = number of requests so far, x23 = registers and x24 = ring; an error jumps to its
// label 9. x0 = parameters. At VALUE: descriptors, +0x80 available ring, +0x100 used ring, +0x200 request, +0x280
// answer. If the device does not behave as expected, RINGS does not change.
20:
    mov x19, x0
    ldr x23, [x19, #{ADDRESS}]
    ldr x24, [x19, #{VALUE}]
    mov x25, xzr
    // Two descriptors: the request, which the device reads, chained to the answer, which the device writes.
    add x9, x24, #0x200
    str x9, [x24]
    mov w9, #8
    str w9, [x24, #8]
    movz w9, #1, lsl #16
    movk w9, #1
    str w9, [x24, #12]
    add x9, x24, #0x280
    str x9, [x24, #16]
    mov w9, #8
    str w9, [x24, #24]
    mov w9, #2
    str w9, [x24, #28]
    // The rings. All their entries are descriptor 0.
    mov w9, #0x80
1:
    sub w9, w9, #8
    add x10, x24, w9, uxtw
    str xzr, [x10, #0x80]
    str xzr, [x10, #0x100]
    cbnz w9, 1b
    // Device status: reset, then ACKNOWLEDGE, then DRIVER.
    ldr w9, [x23]
    movz w10, #0x7472, lsl #16
    movk w10, #0x6976
    cmp w9, w10
    b.ne 9f
    str wzr, [x23, #0x70]
    mov w9, #1
    str w9, [x23, #0x70]
    mov w9, #3
    str w9, [x23, #0x70]
    // Accepts the feature VERSION_1 and no other.
    str wzr, [x23, #0x24]
    str wzr, [x23, #0x20]
    mov w9, #1
    str w9, [x23, #0x24]
    str w9, [x23, #0x20]
    mov w9, #11
    str w9, [x23, #0x70]
    ldr w9, [x23, #0x70]
    cmp w9, #11
    b.ne 9f
    // Selects, sizes and enables queue 0.
    str wzr, [x23, #0x30]
    ldr w9, [x23, #0x34]
    cmp w9, #8
    b.lo 9f
    mov w9, #8
    str w9, [x23, #0x38]
    str w24, [x23, #0x80]
    add w9, w24, #0x80
    str w9, [x23, #0x90]
    add w9, w24, #0x100
    str w9, [x23, #0xa0]
    str wzr, [x23, #0x84]
    str wzr, [x23, #0x94]
    str wzr, [x23, #0xa4]
    mov w9, #1
    str w9, [x23, #0x44]
    ldr w9, [x23, #0x44]
    cmp w9, #1
    b.ne 9f
    mov w9, #15
    str w9, [x23, #0x70]
