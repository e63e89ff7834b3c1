# Stores 4 bytes to each of the addresses after the program, up to a 0, by one instruction.
    lea rbx, [rip + 3f]
2:
    mov rcx, [rbx]
    mov eax, ebx
    mov [rcx], eax
    add rbx, 8
    cmp qword ptr [rbx], 0
    jne 2b
    mov edx, {DONE_PORT}
    out dx, eax
3:
