"""What a master is made of: shells around the state machines of ``pliant.core``, each started only when the job needs it."""
