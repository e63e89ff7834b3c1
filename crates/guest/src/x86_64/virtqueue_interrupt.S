# The program halts after each request until the interrupt of its answer has come. Interrupts stay enabled: if one
# comes between the comparison and hlt, the handler returns to the instruction after hlt.
.macro begin
    sti
.endm
.macro await_answer
50:
    cmp [rsi + 0x102], r14w
    je 5f
    hlt
51:
    jmp 50b
5:
.endm
# Does the EOI of the interrupt, which is an edge, before it writes the device's interrupt acknowledge register. In the
# other order, the exit of that store would clear the PV EOI bit, and the EOI would need the register.
.macro handler
30:
    lea rax, [rsp + 40]
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    call 16b
    mov eax, 1
    mov [r15 + 0x64], eax
    ret
.endm
