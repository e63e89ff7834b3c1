// Stores VALUE, four bytes, to ADDRESS.
// x0 = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov x19, x0
1:
    ldr x20, [x19, {COUNT}]
    ldr x21, [x19, {ADDRESS}]
    ldr w22, [x19, {VALUE}]
    isb
    mrs x23, cntvct_el0
2:
    str w22, [x21]
    subs x20, x20, 1
    b.ne 2b
    isb
    mrs x24, cntvct_el0
    sub x24, x24, x23
    str x24, [x19, {TICKS}]
    ldr x20, [x19, {COUNT}]
    ldr x25, [x19, {RINGS}]
    add x25, x25, x20
    str x25, [x19, {RINGS}]
    mov x26, {DONE_ADDRESS}
    str w20, [x26]
    b 1b
