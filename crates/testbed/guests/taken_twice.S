# Enters an interrupt handler as if the same interrupt had come again within its handler. The host writes the addresses
# of the handler and of the interrupted instruction to the last 16 bytes. Changes r8 and r9, and no flag.
    mov qword ptr [rbx + {STAMP}], 1
    mov r8, rsp
    mov r9d, ss
    push r9
    push r8
    pushfq
    mov r9d, cs
    push r9
    push qword ptr [rip + 2f]
    push {VECTOR}
    jmp qword ptr [rip + 1f]
1:
    .quad 0
2:
    .quad 0
