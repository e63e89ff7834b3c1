# Enters the interrupt handler at VALUE as if an interrupt had come right before the instruction at COUNT. The handler's
# device, if it has one, is memory at ADDRESS.
    mov rbx, rdi
    mov r15, [rbx + {ADDRESS}]
    mov rcx, rsp
    mov eax, ss
    push rax
    push rcx
    pushfq
    mov eax, cs
    push rax
    push qword ptr [rbx + {COUNT}]
    push {VECTOR}
    jmp qword ptr [rbx + {VALUE}]
