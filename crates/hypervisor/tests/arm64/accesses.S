// Makes the accesses in the list of records at ADDRESS and reports that it is done; begins again when it is entered
// again. x0 = parameters. A record has 32 bytes: kind, width (both 4 bytes), address, value, result.
    mov x19, x0
10:
    ldr x20, [x19, {ADDRESS}]
11:
    ldp w21, w22, [x20]
    ldp x23, x24, [x20, 8]
    cbz w21, 90f
    cmp w21, 1
    b.eq 20f
    cmp w21, 2
    b.eq 30f
    cmp w21, 3
    b.eq 40f
    cmp w21, 4
    b.eq 50f
    cmp w21, 5
    b.eq 60f
    cmp w21, 6
    b.eq 70f
    cmp w21, 7
    b.eq 80f
    cmp w21, 8
    b.eq 85f
    b .
// Store.
20:
    cmp w22, 2
    b.eq 22f
    cmp w22, 4
    b.eq 24f
    b.hi 28f
    strb w24, [x23]
    b 99f
22:
    strh w24, [x23]
    b 99f
24:
    str w24, [x23]
    b 99f
28:
    cmp w22, 16
    b.eq 29f
    str x24, [x23]
    b 99f
29:
    stp x24, x24, [x23]
    b 99f
// Load.
30:
    cmp w22, 2
    b.eq 32f
    cmp w22, 4
    b.eq 34f
    b.hi 38f
    ldrb w24, [x23]
    b 98f
32:
    ldrh w24, [x23]
    b 98f
34:
    ldr w24, [x23]
    b 98f
38:
    ldr x24, [x23]
    b 98f
// Call of the hypercall page.
40:
    mov x0, x23
    mov x1, x24
    mov x2, {HYPERCALL_PAGE}
    blr x2
    mov x24, x0
    b 98f
// The CPU's own hypercall instruction, with the function identifier in address.
50:
    mov x0, x23
    hvc #0
    mov x24, x0
    b 98f
// Jump.
60:
    br x23
// Read the counter.
70:
    isb
    mrs x24, cntvct_el0
    b 98f
// Counts in memory and never leaves.
80:
    ldr x24, [x23]
    add x24, x24, 1
    str x24, [x23]
    b 80b
// CPU_ON of PSCI: the number of the other vCPU in address, its first instruction in value, its argument in result.
85:
    mov x0, 3
    movk x0, 0xc400, lsl 16
    mov x1, x23
    mov x2, x24
    ldr x3, [x20, 24]
    hvc #0
    mov x24, x0
98:
    str x24, [x20, 24]
99:
    add x20, x20, 32
    b 11b
90:
    mov x26, {DONE_ADDRESS}
    str wzr, [x26]
    b 10b
