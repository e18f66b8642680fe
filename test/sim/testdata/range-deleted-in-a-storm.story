# A tenant deletes a shared range again and again, which a finalizer keeps. Another tenant claims inside, and is served.
profile hostile
seed 1

a0  +0s create a-storm0 snet range finalizer network=storm0
a0  +0s delete a-storm0
a0  +0s +4s hammer a-storm0 15 & +4.05s b0: create b-c0 send network=storm0 & +4.1s c0: create c-c0 send network=storm0
a0  +0s let-go a-storm0
