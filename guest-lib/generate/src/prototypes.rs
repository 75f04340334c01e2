//! Function prototypes in a parsed header.
//!
//! An unknown type is an error, so no function of the binding is silently omitted. Called for each
//! `mpi.h` from which the table is built.

use lang_c::ast::{
    Declaration, DeclarationSpecifier, Declarator, DeclaratorKind, DerivedDeclarator,
    ExternalDeclaration, ParameterDeclaration, StorageClassSpecifier, TranslationUnit,
    TypeQualifier, TypeSpecifier,
};
use lang_c::span::Node;

use belljar_mpi::{Base, Standard};

use crate::GenerateError;

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, or `argN`.
    pub name: String,
    /// Its type, or the type it points to.
    pub base: Base,
    /// Levels of pointer or array around the base.
    pub pointer: u8,
    /// The pointed-to object is const.
    pub is_const: bool,
}

/// One function of the C binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// Its name.
    pub name: String,
    /// The standard that introduced it.
    pub standard: Standard,
    /// Its result, which is never a pointer.
    pub result: Base,
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
}

/// All functions of the binding that a unit declares.
pub(crate) fn collect(unit: &TranslationUnit) -> Result<Vec<Prototype>, GenerateError> {
    let mut found = Vec::new();
    for external in &unit.0 {
        let ExternalDeclaration::Declaration(declaration) = &external.node else {
            continue;
        };
        let is_typedef = declaration.node.specifiers.iter().any(|specifier| {
            matches!(&specifier.node, DeclarationSpecifier::StorageClass(class)
                if class.node == StorageClassSpecifier::Typedef)
        });
        if !is_typedef {
            collect_declaration(&declaration.node, &mut found)?;
        }
    }
    Ok(found)
}

fn collect_declaration(
    declaration: &Declaration,
    found: &mut Vec<Prototype>,
) -> Result<(), GenerateError> {
    for init in &declaration.declarators {
        let declarator = &init.node.declarator.node;
        let Some(name) = declared_name(declarator) else {
            continue;
        };
        let Some(function) = declarator
            .derived
            .iter()
            .find_map(|derived| match &derived.node {
                DerivedDeclarator::Function(function) => Some(&function.node),
                _ => None,
            })
        else {
            continue;
        };
        if !is_binding(name) {
            continue;
        }
        let result = base_of(&declaration.specifiers, name)?;
        let mut parameters = Vec::new();
        for (index, parameter) in function.parameters.iter().enumerate() {
            parameters.extend(read_parameter(&parameter.node, index, name)?);
        }
        correct(name, &mut parameters);
        found.push(Prototype {
            name: name.to_owned(),
            standard: Standard::Mpi40,
            result,
            parameters,
        });
    }
    Ok(())
}

/// Corrects parameter names in headers: MPICH 4.0 names the peer of `MPI_Precv_init` `dest`.
fn correct(function: &str, parameters: &mut [Parameter]) {
    if function == "MPI_Precv_init" {
        for parameter in parameters.iter_mut().filter(|it| it.name == "dest") {
            "source".clone_into(&mut parameter.name);
        }
    }
}

/// Functions of User-Level Failure Mitigation; other extensions of libraries have the same prefix.
const FAULT_TOLERANCE: [&str; 10] = [
    "MPIX_Comm_ack_failed",
    "MPIX_Comm_agree",
    "MPIX_Comm_failure_ack",
    "MPIX_Comm_failure_get_acked",
    "MPIX_Comm_get_failed",
    "MPIX_Comm_iagree",
    "MPIX_Comm_is_revoked",
    "MPIX_Comm_ishrink",
    "MPIX_Comm_revoke",
    "MPIX_Comm_shrink",
];

/// True for functions of the standard's C binding: `MPI_` and a capital letter, without the tools
/// interface (`MPI_T_`) and the Fortran conversions' opposite direction.
fn is_binding(name: &str) -> bool {
    let standard = name.strip_prefix("MPI_").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_uppercase()) && !rest.starts_with("T_")
    });
    standard || FAULT_TOLERANCE.contains(&name)
}

fn declared_name(declarator: &Declarator) -> Option<&str> {
    match &declarator.kind.node {
        DeclaratorKind::Identifier(identifier) => Some(&identifier.node.name),
        DeclaratorKind::Declarator(inner) => declared_name(&inner.node),
        DeclaratorKind::Abstract => None,
    }
}

/// `None` for the single `void` of an empty list.
fn read_parameter(
    parameter: &ParameterDeclaration,
    index: usize,
    function: &str,
) -> Result<Option<Parameter>, GenerateError> {
    let mut base = base_of(&parameter.specifiers, function)?;
    let declarator = parameter.declarator.as_ref().map(|node| &node.node);
    let mut pointer = 0;
    if let Some(declarator) = declarator {
        if is_function_pointer(declarator) {
            base = Base::Callback;
        } else {
            pointer = pointers(declarator);
        }
    }
    if base == Base::Void && pointer == 0 {
        return Ok(None);
    }
    let name = declarator
        .and_then(declared_name)
        .map_or_else(|| format!("arg{index}"), str::to_owned);
    Ok(Some(Parameter {
        name,
        base,
        pointer,
        is_const: is_const(&parameter.specifiers),
    }))
}

fn is_function_pointer(declarator: &Declarator) -> bool {
    declarator
        .derived
        .iter()
        .any(|derived| matches!(derived.node, DerivedDeclarator::Function(_)))
}

fn pointers(declarator: &Declarator) -> u8 {
    let here = declarator
        .derived
        .iter()
        .filter(|derived| {
            matches!(
                derived.node,
                DerivedDeclarator::Pointer(_) | DerivedDeclarator::Array(_)
            )
        })
        .count() as u8;
    let inner = match &declarator.kind.node {
        DeclaratorKind::Declarator(inner) => pointers(&inner.node),
        _ => 0,
    };
    here + inner
}

fn is_const(specifiers: &[Node<DeclarationSpecifier>]) -> bool {
    specifiers.iter().any(|specifier| {
        matches!(&specifier.node, DeclarationSpecifier::TypeQualifier(qualifier)
            if qualifier.node == TypeQualifier::Const)
    })
}

fn base_of(
    specifiers: &[Node<DeclarationSpecifier>],
    function: &str,
) -> Result<Base, GenerateError> {
    let mut base = Base::Int;
    for specifier in specifiers {
        let DeclarationSpecifier::TypeSpecifier(kind) = &specifier.node else {
            continue;
        };
        base = match &kind.node {
            TypeSpecifier::Void => Base::Void,
            TypeSpecifier::Char => Base::Char,
            TypeSpecifier::Double => Base::Double,
            TypeSpecifier::TypedefName(name) => named(&name.node.name, function)?,
            _ => base,
        };
    }
    Ok(base)
}

fn named(name: &str, function: &str) -> Result<Base, GenerateError> {
    Ok(match name {
        "MPI_Aint" => Base::Aint,
        "MPI_Count" => Base::Count,
        "MPI_Offset" => Base::Offset,
        "MPI_Fint" => Base::Fint,
        "MPI_Comm" => Base::Comm,
        "MPI_Datatype" => Base::Datatype,
        "MPI_Errhandler" => Base::Errhandler,
        "MPI_File" => Base::File,
        "MPI_Group" => Base::Group,
        "MPI_Info" => Base::Info,
        "MPI_Message" => Base::Message,
        "MPI_Op" => Base::Op,
        "MPI_Request" => Base::Request,
        "MPI_Session" => Base::Session,
        "MPI_Status" | "MPI_F08_status" => Base::Status,
        "MPI_Win" => Base::Win,
        _ if name.ends_with("_function")
            || name.ends_with("_fn")
            || name.ends_with("_function_c")
            || name.ends_with("_errhandler_function") =>
        {
            Base::Callback
        }
        _ => {
            return Err(GenerateError::UnknownType {
                function: function.to_owned(),
                type_name: name.to_owned(),
            });
        }
    })
}
