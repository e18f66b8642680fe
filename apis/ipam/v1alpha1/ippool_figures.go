package v1alpha1

// PoolCapacity counts addresses, exactly, as decimal strings: allocated and
// available make up total.
type PoolCapacity struct {
	// total is the number of addresses of the pool, network and broadcast included.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Total string `json:"total"`

	// allocated is the number of addresses held, reserved or excluded.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Allocated string `json:"allocated"`

	// available is the number of addresses that can still be handed out.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Available string `json:"available"`

	// cooling is the number of those allocated addresses that were freed, and are given to
	// nobody yet. Absent when there are none.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	Cooling string `json:"cooling,omitempty"`
}

// PoolLedger says of which ledger a status speaks, and how far that had come. By it
// a ledger that was lost or restored is told from one that has all it ever had.
type PoolLedger struct {
	// id is the ledger's own, made at random with it.
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`

	// changes counts the changes that were ever made to the pool's address space,
	// as of this status.
	// +kubebuilder:validation:Minimum=0
	// +required
	Changes int64 `json:"changes"`
}
